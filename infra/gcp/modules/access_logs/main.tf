locals {
  reads = "LOG_ID(\"cloudaudit.googleapis.com/data_access\") AND protoPayload.serviceName=\"storage.googleapis.com\""
  logs = {
    access = { days = var.days, locked = true, filter = local.reads }
    rest   = { days = 365, locked = false, filter = "NOT (${local.reads})" }
  }
}

data "google_logging_project_cmek_settings" "this" {
  project = var.project_id
}

# a key ring can never be deleted, so that the next one needs another name
resource "random_id" "logs" {
  prefix      = "logs-"
  byte_length = 4
}

resource "google_kms_key_ring" "this" {
  name     = "${var.name}-${random_id.logs.hex}"
  location = var.region
}

# of its own, so that what was logged can be read when the environment's key has gone
resource "google_kms_crypto_key" "this" {
  name            = "${var.name}-logs"
  key_ring        = google_kms_key_ring.this.id
  rotation_period = "7776000s"
}

resource "google_kms_crypto_key_iam_member" "logging" {
  crypto_key_id = google_kms_crypto_key.this.id
  role          = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
  member        = "serviceAccount:${data.google_logging_project_cmek_settings.this.service_account_id}"
}

# Google writes who changed something, but who read something only where it is asked to
resource "google_project_iam_audit_config" "storage" {
  project = var.project_id
  service = "storage.googleapis.com"

  dynamic "audit_log_config" {
    for_each = toset(["ADMIN_READ", "DATA_READ", "DATA_WRITE"])
    content {
      log_type = audit_log_config.value
    }
  }
}

# of a locked one nobody can shorten the time, and nobody can delete it while it holds something
resource "google_logging_project_bucket_config" "this" {
  for_each = local.logs

  project        = var.project_id
  location       = var.region
  bucket_id      = "${var.name}-${each.key}"
  retention_days = each.value.days
  locked         = each.value.locked

  cmek_settings {
    kms_key_name = google_kms_crypto_key.this.id
  }

  depends_on = [google_kms_crypto_key_iam_member.logging]
}

resource "google_logging_project_sink" "this" {
  for_each = local.logs

  project                = var.project_id
  name                   = "${var.name}-${each.key}"
  destination            = "logging.googleapis.com/${google_logging_project_bucket_config.this[each.key].id}"
  filter                 = each.value.filter
  unique_writer_identity = true
}

# the bucket _Default lies in no region and takes no key: nothing goes there any more
resource "google_logging_project_exclusion" "default" {
  project = var.project_id
  name    = "${var.name}-default"
  filter  = "severity >= DEFAULT"

  depends_on = [google_logging_project_sink.this]
}
