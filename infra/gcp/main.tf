locals {
  name = "${var.name}-${var.environment}"
  labels = merge(var.labels, {
    application = var.name
    environment = var.environment
    managed-by  = "terraform"
  })
  # small models on few GPUs: in turns on an L4, or in the partitions of an A100
  shared_pools = {
    time-slicing = { accelerator = "nvidia-l4", gpus = 1, max_nodes = 1, capacity = "on_demand", zones = [var.zones[0]], sharing = "time-slicing" }
    mig          = { accelerator = "nvidia-tesla-a100", gpus = 1, max_nodes = 1, capacity = "on_demand", zones = [var.zones[0]], sharing = "mig" }
  }
  gpu_pools = merge(var.gpu_pools, { for kind, pool in local.shared_pools : "shared" => pool if kind == var.gpu_sharing })
  # of the one file system that steps share, if any; without it their state is in the lake's bucket
  files = concat(var.lustre == null ? [] : ["lustre.googleapis.com"], var.filestore == null ? [] : ["file.googleapis.com"])
  state = length(local.files) == 0 ? ["lake"] : []
  services = concat(local.files, var.protected_data ? ["logging.googleapis.com"] : [], [
    "aiplatform.googleapis.com",
    "artifactregistry.googleapis.com",
    "billingbudgets.googleapis.com",
    "cloudkms.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "compute.googleapis.com",
    "container.googleapis.com",
    "containerscanning.googleapis.com",
    "iam.googleapis.com",
    "iamcredentials.googleapis.com",
    "monitoring.googleapis.com",
    "servicenetworking.googleapis.com",
    "storage.googleapis.com",
  ])
}

data "google_project" "this" {
  project_id = var.project_id
}

# others may use the same project, so a destroy leaves the APIs on
resource "google_project_service" "needed" {
  for_each = toset(local.services)

  service            = each.value
  disable_on_destroy = false
}

module "network" {
  source = "./modules/network"

  name   = local.name
  region = var.region

  depends_on = [google_project_service.needed]
}

module "storage" {
  source = "./modules/storage"

  name        = local.name
  project_id  = var.project_id
  region      = var.region
  disposable  = !var.deletion_protection
  bucket_uses = ["lake", "pipelines", "models"]

  image_readers = var.image_readers
  lustre        = var.lustre != null

  depends_on = [google_project_service.needed]
}

module "access_logs" {
  source = "./modules/access_logs"
  count  = var.protected_data ? 1 : 0

  name       = local.name
  project_id = var.project_id
  region     = var.region
  days       = var.access_log_days

  depends_on = [google_project_service.needed]
}

# the whole network stays until the last node has gone: nodes need its NAT to drain
module "cluster" {
  source = "./modules/cluster"

  name                = local.name
  project_id          = var.project_id
  region              = var.region
  zones               = var.zones
  network             = module.network.network_id
  subnetwork          = module.network.subnetwork_id
  pod_range           = module.network.pod_range
  service_range       = module.network.service_range
  kubernetes_version  = var.kubernetes_version
  release_channel     = var.release_channel
  external            = var.external_control_plane && !var.protected_data
  control_plane_range = module.network.control_plane_range
  people_domain       = var.people_domain
  deletion_protection = var.deletion_protection
  legacy_lustre_port  = try(var.lustre.legacy_port, false)
  compute_class       = var.compute_class
  general_pool        = var.general_pool
  key                 = module.storage.key
  repository          = module.storage.repository
  labels              = local.labels

  depends_on = [module.network]
}

module "gpu_pools" {
  source = "./modules/gpu_pools"

  cluster         = module.cluster.id
  cluster_zones   = var.zones
  service_account = module.cluster.node_service_account
  key             = module.storage.key
  pools           = { for name, pool in local.gpu_pools : name => merge(pool, { zones = coalesce(pool.zones, var.zones) }) }
  labels          = local.labels
}

module "lustre" {
  source = "./modules/lustre"
  count  = var.lustre == null ? 0 : 1

  name               = local.name
  zone               = coalesce(var.lustre.zone, var.zones[0])
  capacity_gib       = var.lustre.capacity_gib
  throughput         = var.lustre.throughput
  legacy_port        = var.lustre.legacy_port
  driver_legacy_port = module.cluster.legacy_lustre_port
  network            = module.network.network_id
  servers            = module.network.service_peering_range
  clients            = module.cluster.node_service_account
  key                = module.storage.key
  service_agent      = module.storage.lustre_service_agent
  bucket             = module.storage.buckets["lake"]

  depends_on = [module.network, module.storage]
}

# for tables of some GB, where Lustre's smallest is 9,000 GiB
module "filestore" {
  source = "./modules/filestore"
  count  = var.filestore == null ? 0 : 1

  name         = local.name
  zone         = coalesce(var.filestore.zone, var.zones[0])
  capacity_gib = var.filestore.capacity_gib
  network      = module.network.network_id
  labels       = local.labels

  depends_on = [module.network]
}

module "identity" {
  source = "./modules/identity"

  name           = local.name
  project_number = data.google_project.this.number
  workload_pool  = module.cluster.workload_pool
  buckets        = module.storage.buckets
  repository     = module.storage.repository
  sources        = var.sources
  workloads = {
    # the accounts of infra/kubernetes/base/accounts.yaml, under which steps run
    steps    = { namespace = "kubeflow", account = "nightshift", reads = ["lake"], writes = concat(["pipelines"], local.state) }
    release  = { namespace = "kubeflow", account = "nightshift-release", reads = ["lake"], writes = concat(["pipelines"], local.state) }
    training = { namespace = "kubeflow", account = "nightshift-training", reads = ["lake"], writes = concat(["pipelines"], local.state) }
    ui       = { namespace = "kubeflow", account = "ml-pipeline-ui", reads = ["pipelines"] }
    mlflow   = { namespace = "nightshift", account = "mlflow", writes = ["models"] }
    # what KServe loads a model with
    serving = { namespace = "nightshift", account = "serving", reads = ["models"] }
    # the logs of Airflow's tasks: who writes them, and who shows them
    tasks    = { namespace = "airflow", account = "airflow-worker", writes = ["pipelines"] }
    triggers = { namespace = "airflow", account = "airflow-triggerer", writes = ["pipelines"] }
    pages    = { namespace = "airflow", account = "airflow-api-server", reads = ["pipelines"] }
  }
}

module "budget" {
  source = "./modules/budget"

  name            = local.name
  project_id      = var.project_id
  billing_account = var.billing_account
  amount          = var.budget.amount
  emails          = var.budget.emails

  depends_on = [google_project_service.needed]
}
