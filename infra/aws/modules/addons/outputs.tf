output "names" {
  description = "Names of the add-ons that run on nodes"
  value       = [for addon in aws_eks_addon.this : addon.addon_name]
}
