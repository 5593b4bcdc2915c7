mock_provider "aws" {}

variables {
  name         = "nightshift-dev"
  region       = "us-east-1"
  account_id   = "000000000000"
  cluster_name = "nightshift-dev"
  bucket_arn   = "arn:aws:s3:::nightshift-dev-000000000000"
  state        = false
  repositories = {
    serving     = "arn:aws:ecr:us-east-1:000000000000:repository/nightshift-dev/serving"
    serving-gpu = "arn:aws:ecr:us-east-1:000000000000:repository/nightshift-dev/serving-gpu"
  }
  kms_key_arn = "arn:aws:kms:us-east-1:000000000000:key/0"
  sources     = { raw = { kms_key_arn = "arn:aws:kms:us-east-1:111111111111:key/0" }, plain = {} }
}

run "raw_data_of_another_account" {
  command = plan

  module {
    source = "./modules/identity"
  }

  assert {
    condition     = [for rule in jsondecode(aws_iam_role_policy.sources["steps"].policy).Statement : rule.Action] == ["s3:ListBucket", ["s3:GetObject"], "kms:Decrypt"]
    error_message = "steps list and read them, and decrypt what has a key"
  }

  assert {
    condition     = [for arn in jsondecode(aws_iam_role_policy.sources["release"].policy).Statement[1].Resource : split(":::", arn)[1]] == ["plain/*", "raw/*"]
    error_message = "and nothing else"
  }

  assert {
    condition     = keys(aws_iam_role_policy.sources) == ["release", "steps", "training"]
    error_message = "and nobody else does"
  }
}

run "state_in_the_bucket_is_written_and_replaced_by_steps_alone" {
  command = plan

  module {
    source = "./modules/identity"
  }

  variables {
    state = true
  }

  assert {
    condition     = [for name, role in aws_iam_role_policy.pods : name if strcontains(role.policy, "/state/*")] == ["release", "steps", "training"]
    error_message = "of those who run steps"
  }

  assert {
    condition     = [for rule in jsondecode(aws_iam_role_policy.pods["steps"].policy).Statement : rule.Resource if rule.Action == "s3:DeleteObject"] == ["arn:aws:s3:::nightshift-dev-000000000000/state/*"]
    error_message = "and deleted nowhere else"
  }
}
