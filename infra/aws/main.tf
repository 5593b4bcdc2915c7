data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

locals {
  full_name  = "${var.name}-${var.environment}"
  account_id = data.aws_caller_identity.current.account_id
  tags       = merge(var.tags, { project = var.name, environment = var.environment })
  # where Lustre is
  nearest = [var.zones[0]]
  # what nodes and pods call of AWS, so that it does not leave the network
  private_services = toset(var.protected_data ? ["autoscaling", "ec2", "ecr.api", "ecr.dkr", "eks", "eks-auth", "fsx", "kms", "logs", "secretsmanager", "sqs", "ssm", "ssmmessages", "sts"] : [])

  shared_pool = {
    instance_types  = ["g6.2xlarge", "g5.2xlarge"]
    capacity        = "on_demand"
    max             = 1
    min             = 0
    zones           = null
    disk_gib        = 200
    fabric          = "none"
    placement_group = false
    reservation_id  = null
    sharing         = var.gpu_sharing
  }
  gpu_pools = merge(
    # Karpenter's nodes have no EFA
    { for name, pool in var.gpu_pools : name => pool if !var.karpenter || pool.fabric == "efa" },
    { for name in ["shared"] : name => local.shared_pool if var.gpu_sharing != "none" },
  )
}

module "encryption" {
  source = "./modules/encryption"

  name       = local.full_name
  region     = var.region
  account_id = local.account_id
  disks      = var.protected_data
}

module "network" {
  source = "./modules/network"

  name                = local.full_name
  region              = var.region
  zones               = var.zones
  cidr                = var.cidr
  nat_per_zone        = var.nat_per_zone
  public_nodes        = var.public_nodes
  interface_endpoints = setunion(var.interface_endpoints, local.private_services)
  log_days            = var.log_days
  kms_key_arn         = module.encryption.key_arn
}

module "cluster" {
  source = "./modules/cluster"

  name                = local.full_name
  region              = var.region
  account_id          = local.account_id
  kubernetes_version  = var.kubernetes_version
  subnet_ids          = values(module.network.subnet_ids)
  api_cidrs           = var.api_cidrs
  administrators      = var.administrators
  people              = var.people
  deletion_protection = var.deletion_protection
  log_days            = var.log_days
  kms_key_arn         = module.encryption.key_arn
}

module "general_pool" {
  source = "./modules/node_pool"

  name               = "general"
  kind               = "general"
  cluster_name       = module.cluster.name
  kubernetes_version = module.cluster.kubernetes_version
  node_role_arn      = module.cluster.node_role_arn
  security_group_id  = module.cluster.security_group_id
  # a disk does not leave its zone, and the autoscaler could not choose that of the next node
  subnet_ids     = [for zone in local.nearest : module.network.subnet_ids[zone]]
  instance_types = var.general_pool.instance_types
  capacity       = var.general_pool.capacity
  min            = var.general_pool.min
  max            = var.general_pool.max
  disk_gib       = var.general_pool.disk_gib
  node_repair    = var.node_repair
  tags           = local.tags
}

module "gpu_pools" {
  source   = "./modules/node_pool"
  for_each = local.gpu_pools

  name                  = each.key
  kind                  = "gpu"
  cluster_name          = module.cluster.name
  kubernetes_version    = module.cluster.kubernetes_version
  node_role_arn         = module.cluster.node_role_arn
  security_group_id     = module.cluster.security_group_id
  efa_security_group_id = module.network.efa_security_group_id
  subnet_ids            = [for zone in coalesce(each.value.zones, each.value.capacity == "spot" ? var.zones : local.nearest) : module.network.subnet_ids[zone]]
  instance_types        = each.value.instance_types
  capacity              = each.value.capacity
  min                   = each.value.min
  max                   = each.value.max
  disk_gib              = each.value.disk_gib
  fabric                = each.value.fabric
  placement_group       = each.value.placement_group
  reservation_id        = each.value.reservation_id
  sharing               = each.value.sharing
  node_repair           = var.node_repair
  preload_images        = var.preload_images
  tags                  = local.tags
}

module "addons" {
  source = "./modules/addons"

  # by way of the pool, since these run on nodes and would wait for the first in vain
  cluster_name       = module.general_pool.cluster_name
  kubernetes_version = module.cluster.kubernetes_version
  name               = local.full_name
  node_repair        = var.node_repair
  tags               = local.tags
}

module "karpenter" {
  source = "./modules/karpenter"

  cluster_name  = module.cluster.name
  cluster_arn   = module.cluster.arn
  node_role_arn = module.cluster.node_role_arn
  region        = var.region
  account_id    = local.account_id
}

module "storage" {
  source = "./modules/storage"

  name                = local.full_name
  account_id          = local.account_id
  kms_key_arn         = module.encryption.key_arn
  image_readers       = var.image_readers
  deletion_protection = var.deletion_protection
}

module "access_logs" {
  source = "./modules/access_logs"
  count  = var.protected_data ? 1 : 0

  name        = local.full_name
  region      = var.region
  account_id  = local.account_id
  bucket_arns = concat([module.storage.bucket_arn], [for bucket in keys(var.sources) : "arn:${data.aws_partition.current.partition}:s3:::${bucket}"])
  days        = var.access_log_days
}

module "lustre" {
  source = "./modules/lustre"
  count  = var.lustre == null ? 0 : 1

  name                  = local.full_name
  vpc_id                = module.network.vpc_id
  subnet_id             = module.network.subnet_ids[var.zones[0]]
  client_group_id       = module.cluster.security_group_id
  efa_security_group_id = module.network.efa_security_group_id
  bucket                = module.storage.bucket
  kms_key_arn           = module.encryption.key_arn
  capacity_gib          = var.lustre.capacity_gib
  throughput            = var.lustre.throughput
  efa                   = var.lustre.efa
}

module "identity" {
  source = "./modules/identity"

  name         = local.full_name
  region       = var.region
  account_id   = local.account_id
  cluster_name = module.cluster.name
  bucket_arn   = module.storage.bucket_arn
  sources      = var.sources
  state        = var.lustre == null
  repositories = module.storage.repository_arns
  kms_key_arn  = module.encryption.key_arn
}

module "budget" {
  source = "./modules/budget"

  name        = local.full_name
  tags        = { project = var.name, environment = var.environment }
  monthly_usd = var.budget.monthly_usd
  anomaly_usd = var.budget.anomaly_usd
  emails      = var.budget.emails
}
