#!/usr/bin/env bash
# Make the secrets that the namespaces' pods read, where they are missing. Passwords are random and are no word of any
# command line; read one with: kubectl get secret --namespace nightshift nightshift-mlflow --output yaml
set -euo pipefail
artifacts=${1:-}
if [ -z "$artifacts" ]; then
  echo "cluster-secrets: ARTIFACTS is empty; name the folder of MLflow's artifacts, such as s3://bucket/mlflow" >&2
  exit 2
fi

password() { head -c 24 /dev/urandom | base64 | tr -d '+/='; }

# secret NAMESPACE NAME: makes it from the lines KEY=VALUE it is told, unless it is there
secret() {
  if kubectl get secret --namespace "$1" "$2" --output name 2>/dev/null; then cat >/dev/null; return; fi
  kubectl create secret generic "$2" --namespace "$1" --from-env-file=/dev/stdin
}

login=$(password) database=$(password)
secret nightshift postgresql <<< "POSTGRES_USER=mlflow
POSTGRES_PASSWORD=$database
POSTGRES_DB=mlflow"
secret nightshift mlflow <<< "MLFLOW_BACKEND_STORE_URI=postgresql://mlflow:$database@postgresql:5432/mlflow
MLFLOW_ARTIFACTS_DESTINATION=$artifacts
MLFLOW_FLASK_SERVER_SECRET_KEY=$(password)"
# steps log in with the same words as the registry was told
for namespace in nightshift kubeflow; do
  secret $namespace nightshift-mlflow <<< "username=nightshift
password=$login"
done

database=$(password)
secret airflow postgresql <<< "POSTGRES_USER=airflow
POSTGRES_PASSWORD=$database
POSTGRES_DB=airflow"
secret airflow airflow-database <<< "connection=postgresql://airflow:$database@postgresql:5432/airflow"

secret monitoring grafana-admin <<< "admin-user=admin
admin-password=$(password)"
