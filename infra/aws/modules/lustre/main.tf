locals {
  # 988 is Lustre's; from 1018 to 1023 its clients answer
  ports  = { lustre = [988, 988], answers = [1018, 1023] }
  peers  = { servers = aws_security_group.this.id, nodes = var.client_group_id }
  groups = var.efa ? [aws_security_group.this.id, var.efa_security_group_id] : [aws_security_group.this.id]
  # with EFA a capacity comes in steps: 38.4 TiB at 125 MB/s for each TiB, and the less the faster
  efa_step = 4800 * 1000 / var.throughput
  rules    = { for pair in setproduct(keys(local.ports), ["servers", "nodes"]) : join("-", pair) => pair }
}

resource "aws_security_group" "this" {
  name        = "${var.name}-lustre"
  description = "Lustre servers, and the nodes that mount them"
  vpc_id      = var.vpc_id
}

resource "aws_vpc_security_group_ingress_rule" "lustre" {
  for_each = local.rules

  security_group_id            = aws_security_group.this.id
  description                  = "Lustre from ${each.value[1]}"
  referenced_security_group_id = local.peers[each.value[1]]
  ip_protocol                  = "tcp"
  from_port                    = local.ports[each.value[0]][0]
  to_port                      = local.ports[each.value[0]][1]
}

resource "aws_vpc_security_group_egress_rule" "lustre" {
  for_each = local.rules

  security_group_id            = aws_security_group.this.id
  description                  = "Lustre to ${each.value[1]}"
  referenced_security_group_id = local.peers[each.value[1]]
  ip_protocol                  = "tcp"
  from_port                    = local.ports[each.value[0]][0]
  to_port                      = local.ports[each.value[0]][1]
}

# the cluster's group lets its members call anybody, but be called by each other only: Lustre calls its clients
resource "aws_vpc_security_group_ingress_rule" "nodes" {
  for_each = local.ports

  security_group_id            = var.client_group_id
  description                  = "Lustre servers to the nodes"
  referenced_security_group_id = aws_security_group.this.id
  ip_protocol                  = "tcp"
  from_port                    = each.value[0]
  to_port                      = each.value[1]
}

resource "aws_fsx_lustre_file_system" "this" {
  deployment_type             = "PERSISTENT_2"
  storage_type                = "SSD"
  storage_capacity            = var.capacity_gib
  per_unit_storage_throughput = var.throughput
  data_compression_type       = "LZ4"
  efa_enabled                 = var.efa
  subnet_ids                  = [var.subnet_id]
  security_group_ids          = local.groups
  kms_key_id                  = var.kms_key_arn

  # as many operations as the capacity includes
  metadata_configuration {
    mode = "AUTOMATIC"
  }

  tags = { Name = var.name }

  lifecycle {
    precondition {
      condition     = !var.efa || var.capacity_gib % local.efa_step == 0
      error_message = "capacity_gib must be a multiple of ${local.efa_step} with EFA at a throughput of ${var.throughput}."
    }
  }

  depends_on = [aws_vpc_security_group_ingress_rule.lustre, aws_vpc_security_group_egress_rule.lustre]
}

# PERSISTENT_2 takes no import_path: what is in the bucket is linked by an association
resource "aws_fsx_data_repository_association" "bucket" {
  file_system_id       = aws_fsx_lustre_file_system.this.id
  file_system_path     = "/"
  data_repository_path = "s3://${var.bucket}/lustre"
  # a file system that takes the place of a lost one knows what the bucket holds; contents come when they are read
  batch_import_meta_data_on_create = true

  s3 {
    auto_import_policy {
      events = ["NEW", "CHANGED", "DELETED"]
    }

    auto_export_policy {
      events = ["NEW", "CHANGED", "DELETED"]
    }
  }
}
