mock_provider "aws" {}

variables {
  name                  = "nightshift-dev"
  vpc_id                = "vpc-0"
  subnet_id             = "subnet-0"
  client_group_id       = "sg-nodes"
  efa_security_group_id = "sg-efa"
  bucket                = "nightshift-dev-000000000000"
  kms_key_arn           = "arn:aws:kms:us-east-1:000000000000:key/0"
  capacity_gib          = 1200
  throughput            = 125
  efa                   = false
}

run "lustre_is_linked_by_an_association_and_compressed" {
  command = plan

  module {
    source = "./modules/lustre"
  }

  assert {
    condition     = aws_fsx_data_repository_association.bucket.data_repository_path == "s3://nightshift-dev-000000000000/lustre"
    error_message = "an association links it with the bucket"
  }

  assert {
    condition     = aws_fsx_lustre_file_system.this.metadata_configuration[0].mode == "AUTOMATIC"
    error_message = "metadata follow the capacity"
  }
}

run "efa_with_a_whole_step" {
  command = plan

  module {
    source = "./modules/lustre"
  }

  variables {
    efa          = true
    capacity_gib = 9600
    throughput   = 500
  }

  assert {
    condition     = aws_fsx_lustre_file_system.this.efa_enabled
    error_message = "9600 GiB are a step at 500 MB/s for each TiB"
  }
}
