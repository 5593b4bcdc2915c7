#!/usr/bin/env bash
# Reach the private API of a cluster from a machine outside its network: infra/aws/connect.sh nightshift-dev [PORT]
# Writes kubectl's configuration, and forwards a port of this machine to the API through a general node until it is ended
# (Ctrl-C). Asks for the AWS CLI with its Session Manager plugin, and for the policy `terraform output api_policy_arn`.
set -euo pipefail
cluster=${1:?name of the cluster, such as nightshift-dev} port=${2:-8443}

endpoint=$(aws eks describe-cluster --name "$cluster" --query cluster.endpoint --output text)
node=$(aws ec2 describe-instances --filters "Name=tag:Name,Values=$cluster-general" Name=instance-state-name,Values=running \
  --query 'Reservations[0].Instances[0].InstanceId' --output text)
if [ "$node" = None ]; then
  echo "connect: no node named $cluster-general is running; look at the node group general of $cluster" >&2
  exit 1
fi
aws eks update-kubeconfig --name "$cluster" --alias "$cluster"
# by the name in its certificate, since the API is not localhost
kubectl config set-cluster "$(kubectl config view --minify --output 'jsonpath={.contexts[0].context.cluster}')" \
  --server "https://localhost:$port" --tls-server-name "${endpoint#https://}"
exec aws ssm start-session --target "$node" --document-name "$cluster-api" --parameters "localPortNumber=$port"
