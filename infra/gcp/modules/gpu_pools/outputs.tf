output "machine_types" {
  description = "Machine types by pool, for quota and price."
  value       = { for name, machine in local.machine : name => machine.type }
}
