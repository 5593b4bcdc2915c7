data "aws_partition" "current" {}

locals {
  accounts = { ebs = "ebs-csi-controller-sa", fsx = "fsx-csi-controller-sa" }
  # whose account and role each has; null asks for none
  addons = merge(
    { coredns = null, metrics-server = null, aws-ebs-csi-driver = "ebs", aws-fsx-csi-driver = "fsx" },
    var.node_repair ? { eks-node-monitoring-agent = null } : {},
  )
}

# what EKS itself would install with this version of Kubernetes
data "aws_eks_addon_version" "this" {
  for_each = local.addons

  addon_name         = each.key
  kubernetes_version = var.kubernetes_version
}

resource "aws_eks_addon" "this" {
  for_each = local.addons

  cluster_name  = var.cluster_name
  addon_name    = each.key
  addon_version = data.aws_eks_addon_version.this[each.key].version
  # the provider's default tags do not reach what the driver makes
  configuration_values = each.value == "ebs" ? jsonencode({ controller = { extraVolumeTags = var.tags } }) : null

  dynamic "pod_identity_association" {
    for_each = each.value == null ? [] : [each.value]

    content {
      service_account = local.accounts[pod_identity_association.value]
      role_arn        = aws_iam_role.this[pod_identity_association.value].arn
    }
  }

  depends_on = [aws_iam_role_policy_attachment.ebs, aws_iam_role_policy.fsx]
}

resource "aws_iam_role" "this" {
  for_each = local.accounts

  name = "${var.name}-${each.key}-csi"

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "pods.eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
      Condition = {
        StringEquals = {
          "aws:RequestTag/kubernetes-namespace"       = "kube-system"
          "aws:RequestTag/kubernetes-service-account" = each.value
        }
      }
    }]
  })
}

resource "aws_iam_role_policy_attachment" "ebs" {
  role       = aws_iam_role.this["ebs"].name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy"
}

# the file system is made here and its volume is static: the driver looks, and makes nothing
resource "aws_iam_role_policy" "fsx" {
  name = "look"
  role = aws_iam_role.this["fsx"].name

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = "fsx:DescribeFileSystems"
      Resource = "*"
    }]
  })
}
