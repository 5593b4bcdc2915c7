data "aws_partition" "current" {}

locals {
  # which service account reads and writes below which prefixes of the bucket
  components = {
    # who runs steps: infra/kubernetes/base/accounts.yaml
    steps    = { namespace = "kubeflow", account = "nightshift", reads = ["raw", "lustre"], writes = local.written }
    release  = { namespace = "kubeflow", account = "nightshift-release", reads = ["raw", "lustre"], writes = local.written }
    training = { namespace = "kubeflow", account = "nightshift-training", reads = ["raw", "lustre"], writes = local.written }
    ui       = { namespace = "kubeflow", account = "ml-pipeline-ui", reads = ["pipelines"], writes = [] }
    mlflow   = { namespace = "nightshift", account = "mlflow", reads = [], writes = ["mlflow"] }
    serving  = { namespace = "nightshift", account = "serving", reads = ["mlflow"], writes = [] }
    # the logs of Airflow's tasks: who writes them, and who shows them
    tasks    = { namespace = "airflow", account = "airflow-worker", reads = [], writes = ["airflow"] }
    triggers = { namespace = "airflow", account = "airflow-triggerer", reads = [], writes = ["airflow"] }
    pages    = { namespace = "airflow", account = "airflow-api-server", reads = ["airflow"], writes = [] }
  }
  written = concat(["pipelines"], var.state ? ["state"] : [])
  # mlflow gc, and what steps replace of their state
  cleaned = ["mlflow", "state"]

  s3    = "arn:${data.aws_partition.current.partition}:s3::"
  read  = ["s3:GetObject"]
  write = ["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"]
  through_s3 = {
    StringEquals = { "kms:ViaService" = "s3.${var.region}.amazonaws.com" }
  }
}

resource "aws_iam_role" "pods" {
  for_each = local.components

  name = "${var.name}-${each.key}"

  # the agent names the account a pod asks for: no other may take the role
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "pods.eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
      Condition = {
        StringEquals = {
          "aws:RequestTag/kubernetes-namespace"       = each.value.namespace
          "aws:RequestTag/kubernetes-service-account" = each.value.account
        }
      }
    }]
  })
}

resource "aws_eks_pod_identity_association" "this" {
  for_each = local.components

  cluster_name    = var.cluster_name
  namespace       = each.value.namespace
  service_account = each.value.account
  role_arn        = aws_iam_role.pods[each.key].arn
}

resource "aws_iam_role_policy" "pods" {
  for_each = local.components

  name = "bucket"
  role = aws_iam_role.pods[each.key].name

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        {
          # of the whole bucket: whoever may not list is told 403 of an object that is not there, and takes it for forbidden
          Effect   = "Allow"
          Action   = "s3:ListBucket"
          Resource = var.bucket_arn
        },
        {
          Effect    = "Allow"
          Action    = concat(["kms:Decrypt"], length(each.value.writes) > 0 ? ["kms:GenerateDataKey"] : [])
          Resource  = var.kms_key_arn
          Condition = local.through_s3
        },
      ],
      [for prefix in each.value.reads : { Effect = "Allow", Action = local.read, Resource = "${var.bucket_arn}/${prefix}/*" }],
      [for prefix in each.value.writes : { Effect = "Allow", Action = local.write, Resource = "${var.bucket_arn}/${prefix}/*" }],
      [for prefix in each.value.writes : { Effect = "Allow", Action = "s3:DeleteObject", Resource = "${var.bucket_arn}/${prefix}/*" } if contains(local.cleaned, prefix)],
    )
  })
}

# raw data that lie elsewhere; in another account, that account's bucket and key have to allow it too
resource "aws_iam_role_policy" "sources" {
  for_each = { for name, component in local.components : name => component if length(var.sources) > 0 && contains(component.reads, "raw") }

  name = "sources"
  role = aws_iam_role.pods[each.key].name

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        { Effect = "Allow", Action = "s3:ListBucket", Resource = [for bucket in keys(var.sources) : "${local.s3}:${bucket}"] },
        { Effect = "Allow", Action = local.read, Resource = [for bucket in keys(var.sources) : "${local.s3}:${bucket}/*"] },
      ],
      # a bucket of another region has its key there
      [
        for source in values(var.sources) : {
          Effect    = "Allow"
          Action    = "kms:Decrypt"
          Resource  = source.kms_key_arn
          Condition = { StringEquals = { "kms:ViaService" = "s3.${split(":", source.kms_key_arn)[3]}.amazonaws.com" } }
        } if source.kms_key_arn != null
      ],
    )
  })
}

resource "aws_iam_role" "autoscaler" {
  name = "${var.name}-autoscaler"

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "pods.eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
      Condition = {
        StringEquals = {
          "aws:RequestTag/kubernetes-namespace"       = "kube-system"
          "aws:RequestTag/kubernetes-service-account" = "cluster-autoscaler"
        }
      }
    }]
  })
}

resource "aws_eks_pod_identity_association" "autoscaler" {
  cluster_name    = var.cluster_name
  namespace       = "kube-system"
  service_account = "cluster-autoscaler"
  role_arn        = aws_iam_role.autoscaler.arn
}

resource "aws_iam_role_policy" "autoscaler" {
  name = "groups"
  role = aws_iam_role.autoscaler.name

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect = "Allow"
        Action = [
          "autoscaling:DescribeAutoScalingGroups",
          "autoscaling:DescribeAutoScalingInstances",
          "autoscaling:DescribeLaunchConfigurations",
          "autoscaling:DescribeScalingActivities",
          "ec2:DescribeImages",
          "ec2:DescribeInstanceTypes",
          "ec2:DescribeLaunchTemplateVersions",
          "ec2:GetInstanceTypesFromInstanceRequirements",
        ]
        Resource = "*"
      },
      {
        Effect   = "Allow"
        Action   = "eks:DescribeNodegroup"
        Resource = "arn:${data.aws_partition.current.partition}:eks:${var.region}:${var.account_id}:nodegroup/${var.cluster_name}/*/*"
      },
      {
        Effect    = "Allow"
        Action    = ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"]
        Resource  = "arn:${data.aws_partition.current.partition}:autoscaling:${var.region}:${var.account_id}:autoScalingGroup:*:autoScalingGroupName/*"
        Condition = { StringEquals = { "aws:ResourceTag/k8s.io/cluster-autoscaler/${var.cluster_name}" = "owned" } }
      },
    ]
  })
}

resource "aws_iam_role" "sagemaker" {
  name = "${var.name}-sagemaker"

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "sagemaker.amazonaws.com" }
      Action    = "sts:AssumeRole"
      Condition = { StringEquals = { "aws:SourceAccount" = var.account_id } }
    }]
  })
}

resource "aws_iam_role_policy" "sagemaker" {
  name = "endpoint"
  role = aws_iam_role.sagemaker.name

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid      = "Model"
        Effect   = "Allow"
        Action   = local.read
        Resource = "${var.bucket_arn}/mlflow/*"
      },
      {
        Sid       = "ModelsKey"
        Effect    = "Allow"
        Action    = "kms:Decrypt"
        Resource  = var.kms_key_arn
        Condition = local.through_s3
      },
      {
        Sid      = "Image"
        Effect   = "Allow"
        Action   = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
        Resource = [var.repositories["serving"], var.repositories["serving-gpu"]]
      },
      {
        Sid      = "Registry"
        Effect   = "Allow"
        Action   = "ecr:GetAuthorizationToken"
        Resource = "*"
      },
      {
        Sid      = "Logs"
        Effect   = "Allow"
        Action   = ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"]
        Resource = "arn:${data.aws_partition.current.partition}:logs:${var.region}:${var.account_id}:log-group:/aws/sagemaker/Endpoints/*"
      },
      {
        Sid       = "Metrics"
        Effect    = "Allow"
        Action    = "cloudwatch:PutMetricData"
        Resource  = "*"
        Condition = { StringLike = { "cloudwatch:namespace" = ["/aws/sagemaker/*", "AWS/SageMaker"] } }
      },
    ]
  })
}
