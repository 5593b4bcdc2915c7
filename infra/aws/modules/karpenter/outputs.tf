output "queue_name" {
  description = "Name of the queue of interruptions"
  value       = aws_sqs_queue.interruptions.name
}
