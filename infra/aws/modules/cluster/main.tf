data "aws_partition" "current" {}

locals {
  # the groups of infra/cluster/namespaces/common/people.yaml, by the IAM role that is in one
  people = merge(
    { for arn in var.people.operators : arn => "nightshift-operators" },
    { for arn in var.people.readers : arn => "nightshift-readers" },
  )
  before_nodes = toset(["eks-pod-identity-agent", "kube-proxy", "vpc-cni"])

  policies = "arn:${data.aws_partition.current.partition}:iam::aws:policy"
  arn      = { for service in ["ec2", "ssm"] : service => "arn:${data.aws_partition.current.partition}:${service}:${var.region}:${var.account_id}" }
  pods = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "pods.eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
      Condition = {
        StringEquals = {
          "aws:RequestTag/kubernetes-namespace"       = "kube-system"
          "aws:RequestTag/kubernetes-service-account" = "aws-node"
        }
      }
    }]
  })
}

resource "aws_cloudwatch_log_group" "this" {
  # the name to which EKS writes: made here, so that the logs are encrypted and end some day
  name              = "/aws/eks/${var.name}/cluster"
  retention_in_days = var.log_days
  kms_key_id        = var.kms_key_arn
}

resource "aws_eks_cluster" "this" {
  name                          = var.name
  version                       = var.kubernetes_version
  role_arn                      = aws_iam_role.cluster.arn
  enabled_cluster_log_types     = ["api", "audit", "authenticator", "controllerManager", "scheduler"]
  deletion_protection           = var.deletion_protection
  bootstrap_self_managed_addons = false

  # past the standard support EKS upgrades the cluster, and does not charge six times as much for the old version
  upgrade_policy {
    support_type = "STANDARD"
  }

  access_config {
    authentication_mode                         = "API"
    bootstrap_cluster_creator_admin_permissions = false
  }

  vpc_config {
    subnet_ids              = var.subnet_ids
    endpoint_private_access = true
    endpoint_public_access  = length(var.api_cidrs) > 0
    public_access_cidrs     = length(var.api_cidrs) > 0 ? var.api_cidrs : null
  }

  encryption_config {
    resources = ["secrets"]

    provider {
      key_arn = var.kms_key_arn
    }
  }

  depends_on = [aws_cloudwatch_log_group.this, aws_iam_role_policy_attachment.cluster]
}

resource "aws_iam_role" "cluster" {
  name = "${var.name}-cluster"

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
    }]
  })
}

resource "aws_iam_role_policy_attachment" "cluster" {
  role       = aws_iam_role.cluster.name
  policy_arn = "${local.policies}/AmazonEKSClusterPolicy"
}

resource "aws_eks_access_entry" "administrators" {
  for_each = var.administrators

  cluster_name  = aws_eks_cluster.this.name
  principal_arn = each.key
}

resource "aws_eks_access_policy_association" "administrators" {
  for_each = var.administrators

  cluster_name  = aws_eks_cluster.this.name
  principal_arn = aws_eks_access_entry.administrators[each.key].principal_arn
  policy_arn    = "arn:${data.aws_partition.current.partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"

  access_scope {
    type = "cluster"
  }
}

resource "aws_eks_access_entry" "people" {
  for_each = local.people

  cluster_name      = aws_eks_cluster.this.name
  principal_arn     = each.key
  kubernetes_groups = [each.value]
}

# the API has a private address only: by this a general node passes on what is sent to it, and nothing else
resource "aws_ssm_document" "api" {
  name            = "${var.name}-api"
  document_type   = "Session"
  document_format = "JSON"

  content = jsonencode({
    schemaVersion = "1.0"
    description   = "A port of this machine becomes the Kubernetes API of ${var.name}"
    sessionType   = "Port"
    parameters = {
      localPortNumber = { type = "String", description = "Port of this machine", default = "8443", allowedPattern = "^[0-9]{4,5}$" }
    }
    properties = {
      type            = "LocalPortForwarding"
      host            = trimprefix(aws_eks_cluster.this.endpoint, "https://")
      portNumber      = "443"
      localPortNumber = "{{ localPortNumber }}"
    }
  })
}

# for the roles of people, which are not made here
resource "aws_iam_policy" "api" {
  name        = "${var.name}-api"
  description = "Reach the Kubernetes API of ${var.name} through one of its general nodes"

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid      = "ThroughNodes"
        Effect   = "Allow"
        Action   = "ssm:StartSession"
        Resource = "${local.arn.ec2}:instance/*"
        Condition = {
          StringEquals = { "ssm:resourceTag/Name" = "${var.name}-general" }
          # otherwise a session without a document, which is a shell, would need no right to one
          BoolIfExists = { "ssm:SessionDocumentAccessCheck" = "true" }
        }
      },
      {
        Sid      = "ToTheApiOnly"
        Effect   = "Allow"
        Action   = "ssm:StartSession"
        Resource = "${local.arn.ssm}:document/${var.name}-api"
      },
      {
        Sid      = "OwnSessions"
        Effect   = "Allow"
        Action   = ["ssm:ResumeSession", "ssm:TerminateSession"]
        Resource = "${local.arn.ssm}:session/$${aws:userid}-*"
      },
      {
        Sid      = "Cluster"
        Effect   = "Allow"
        Action   = "eks:DescribeCluster"
        Resource = aws_eks_cluster.this.arn
      },
      {
        Sid      = "FindNodes"
        Effect   = "Allow"
        Action   = "ec2:DescribeInstances"
        Resource = "*"
      },
    ]
  })
}

resource "aws_iam_role" "nodes" {
  name = "${var.name}-nodes"

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "ec2.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy_attachment" "nodes" {
  for_each = toset(["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore"])

  role       = aws_iam_role.nodes.name
  policy_arn = "${local.policies}/${each.key}"
}

# what EKS itself would install with this version of Kubernetes
data "aws_eks_addon_version" "before_nodes" {
  for_each = local.before_nodes

  addon_name         = each.key
  kubernetes_version = aws_eks_cluster.this.version
}

# what a node needs before it is ready; the others wait for nodes themselves
resource "aws_eks_addon" "before_nodes" {
  for_each = local.before_nodes

  cluster_name  = aws_eks_cluster.this.name
  addon_name    = each.key
  addon_version = data.aws_eks_addon_version.before_nodes[each.key].version
  # without it the NetworkPolicies of infra/kubernetes and infra/cluster are accepted and do nothing
  configuration_values = each.key == "vpc-cni" ? jsonencode({ enableNetworkPolicy = "true" }) : null

  dynamic "pod_identity_association" {
    for_each = each.key == "vpc-cni" ? ["aws-node"] : []

    content {
      service_account = pod_identity_association.value
      role_arn        = aws_iam_role.network.arn
    }
  }

  depends_on = [aws_iam_role_policy_attachment.network]
}

resource "aws_iam_role" "network" {
  name               = "${var.name}-vpc-cni"
  assume_role_policy = local.pods
}

resource "aws_iam_role_policy_attachment" "network" {
  role       = aws_iam_role.network.name
  policy_arn = "${local.policies}/AmazonEKS_CNI_Policy"
}
