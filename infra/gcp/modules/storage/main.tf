data "google_project" "this" {
  project_id = var.project_id
}

locals {
  number  = data.google_project.this.number
  created = concat([for name in ["artifactregistry", "compute", "container"] : "${name}.googleapis.com"], var.lustre ? ["lustre.googleapis.com"] : [])
  # who encrypts with the key: nodes' disks and secrets, objects, images, files
  agents = merge({
    compute  = "serviceAccount:service-${local.number}@compute-system.iam.gserviceaccount.com"
    cluster  = "serviceAccount:service-${local.number}@container-engine-robot.iam.gserviceaccount.com"
    storage  = "serviceAccount:${data.google_storage_project_service_account.this.email_address}"
    registry = google_project_service_identity.agents["artifactregistry.googleapis.com"].member
  }, var.lustre ? { lustre = google_project_service_identity.agents["lustre.googleapis.com"].member } : {})
}

data "google_storage_project_service_account" "this" {
  project = var.project_id
}

# service agents that come into being at the first use of their API, which is too late for a grant
resource "google_project_service_identity" "agents" {
  for_each = toset(local.created)
  provider = google-beta

  project = var.project_id
  service = each.value
}

# IAM refuses a grant to an agent that was just created, for some time; with a further agent it is waited again
resource "time_sleep" "agents" {
  create_duration = "90s"
  triggers        = { services = join(" ", local.created) }

  depends_on = [google_project_service_identity.agents]
}

# a key ring can never be deleted, so that the next one needs another name
resource "random_id" "key_ring" {
  byte_length = 4
}

resource "google_kms_key_ring" "this" {
  name     = "${var.name}-${random_id.key_ring.hex}"
  location = var.region
}

resource "google_kms_crypto_key" "this" {
  name            = var.name
  key_ring        = google_kms_key_ring.this.id
  rotation_period = "7776000s"
}

# signs images: its public half verifies them
resource "google_kms_crypto_key" "images" {
  name     = "${var.name}-images"
  key_ring = google_kms_key_ring.this.id
  purpose  = "ASYMMETRIC_SIGN"

  version_template {
    algorithm        = "EC_SIGN_P256_SHA256"
    protection_level = "SOFTWARE"
  }
}

resource "google_kms_crypto_key_iam_member" "agents" {
  for_each = local.agents

  crypto_key_id = google_kms_crypto_key.this.id
  role          = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
  member        = each.value

  depends_on = [time_sleep.agents]
}

resource "google_storage_bucket" "this" {
  for_each = var.bucket_uses

  name                        = "${var.project_id}-${var.name}-${each.value}"
  location                    = var.region
  force_destroy               = var.disposable
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  encryption {
    default_kms_key_name = google_kms_crypto_key.this.id
  }

  versioning {
    enabled = true
  }

  lifecycle_rule {
    action {
      type = "Delete"
    }
    condition {
      days_since_noncurrent_time = 30
    }
  }

  # what a killed upload leaves behind
  lifecycle_rule {
    action {
      type = "AbortIncompleteMultipartUpload"
    }
    condition {
      age = 7
    }
  }

  depends_on = [google_kms_crypto_key_iam_member.agents]
}

# prod runs the images that dev has tried, from dev's repository
resource "google_artifact_registry_repository_iam_member" "readers" {
  for_each = var.image_readers

  location   = google_artifact_registry_repository.images.location
  repository = google_artifact_registry_repository.images.repository_id
  role       = "roles/artifactregistry.reader"
  member     = "serviceAccount:${each.key}"
}

resource "google_artifact_registry_repository" "images" {
  repository_id = var.name
  location      = var.region
  format        = "DOCKER"
  description   = "Images of the pipelines"
  kms_key_name  = google_kms_crypto_key.this.id

  docker_config {
    immutable_tags = true
  }

  vulnerability_scanning_config {
    enablement_config = "INHERITED"
  }

  # what a policy keeps no other deletes; untagged images stay: a signature without a tag is one
  cleanup_policies {
    id     = "keep-what-runs"
    action = "KEEP"
    condition {
      tag_state    = "TAGGED"
      tag_prefixes = ["keep-", "sha256-"]
    }
  }

  cleanup_policies {
    id     = "delete-after-half-a-year"
    action = "DELETE"
    condition {
      tag_state  = "TAGGED"
      older_than = "15552000s"
    }
  }

  depends_on = [google_kms_crypto_key_iam_member.agents]
}
