# every value is another than in dev and prod, so that what should follow one and does not is seen; and every choice is
# taken that neither takes
name                = "moonlight"
environment         = "other"
region              = "eu-central-1"
zones               = ["eu-central-1c", "eu-central-1a"]
cidr                = "172.20.0.0/17"
kubernetes_version  = "1.36"
nat_per_zone        = false
interface_endpoints = ["sts"]
deletion_protection = true
log_days            = 90
protected_data      = true
access_log_days     = 400

administrators = ["arn:aws:iam::222222222222:role/one", "arn:aws:iam::222222222222:role/two"]
people         = { readers = ["arn:aws:iam::222222222222:role/three"] }

sources       = { kept = { kms_key_arn = "arn:aws:kms:eu-west-3:333333333333:key/0" }, plain = {} }
image_readers = ["444444444444"]

general_pool = {
  instance_types = ["m7i.2xlarge"]
  min            = 2
  max            = 3
  disk_gib       = 50
}

gpu_pools = {
  block = {
    instance_types = ["p5.48xlarge"]
    capacity       = "capacity_block"
    max            = 2
    reservation_id = "cr-00000000000000001"
    zones          = ["eu-central-1a"]
  }
  reserved = {
    instance_types = ["p4d.24xlarge"]
    capacity       = "reserved"
    max            = 1
    fabric         = "efa"
    reservation_id = "cr-00000000000000002"
  }
}

lustre = {
  capacity_gib = 9600
  throughput   = 500
  efa          = true
}

budget = {
  monthly_usd = 300
  anomaly_usd = 30
  emails      = ["one@example.org", "two@example.org"]
}

tags = { team = "night" }

gpu_sharing    = "time-slicing"
node_repair    = true
preload_images = true
