mock_provider "aws" {}

variables {
  name                = "nightshift-dev"
  region              = "us-east-1"
  zones               = ["us-east-1a", "us-east-1b"]
  cidr                = "10.0.0.0/16"
  nat_per_zone        = false
  public_nodes        = false
  interface_endpoints = ["ecr.api"]
  log_days            = 30
  kms_key_arn         = "arn:aws:kms:us-east-1:000000000000:key/0"
}

run "one_nat_gateway_serves_every_zone" {
  command = plan

  module {
    source = "./modules/network"
  }

  assert {
    condition     = length(aws_nat_gateway.this) == 1 && length(aws_route.nat) == 2
    error_message = "one gateway, and a route to it from each zone"
  }

  assert {
    condition     = length(distinct(concat(values(local.private), values(local.public)))) == 4
    error_message = "no two subnets have the same range"
  }
}

run "a_nat_gateway_in_every_zone" {
  command = plan

  module {
    source = "./modules/network"
  }

  variables {
    nat_per_zone = true
  }

  assert {
    condition     = length(aws_nat_gateway.this) == 2
    error_message = "one gateway for each zone"
  }
}

run "public_nodes_leave_without_a_nat_gateway" {
  command = plan

  module {
    source = "./modules/network"
  }

  variables {
    public_nodes = true
  }

  override_resource {
    target          = aws_internet_gateway.this
    override_during = plan
    values          = { id = "igw-0123456789abcdef0" }
  }

  assert {
    condition     = length(aws_nat_gateway.this) + length(aws_eip.nat) == 0
    error_message = "nothing is paid for by the hour"
  }

  assert {
    condition     = alltrue([for route in aws_route.nat : route.gateway_id == "igw-0123456789abcdef0" && route.nat_gateway_id == null])
    error_message = "every zone's nodes go out by the internet gateway"
  }

  assert {
    condition     = alltrue([for subnet in aws_subnet.private : subnet.map_public_ip_on_launch])
    error_message = "which wants public addresses"
  }
}
