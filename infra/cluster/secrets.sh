#!/usr/bin/env bash
# Make once the secrets that pods of our namespaces read. Passwords are random and are no word of any command line; read
# one with: kubectl get secret --namespace nightshift nightshift-mlflow --output yaml
set -euo pipefail
artifacts=${1:?folder of the artifacts of MLflow, such as s3://bucket/mlflow}

password() { head -c 24 /dev/urandom | base64 | tr -d '+/='; }

# secret NAMESPACE NAME: creates it from lines KEY=VALUE on its input
secret() {
  kubectl create secret generic "$2" --namespace "$1" --from-env-file=/dev/stdin --dry-run=client --output yaml \
    | kubectl apply --filename -
}

# exists NAMESPACE NAME: a secret that is not there is no error
exists() { [ -n "$(kubectl get secret --namespace "$1" "$2" --ignore-not-found --output name)" ]; }

# what served models want of requests, and what the release step asks them with; a cluster with all others may lack it
if ! exists kubeflow nightshift-serving; then
  token=$(password)
  for namespace in nightshift kubeflow; do
    secret $namespace nightshift-serving <<< "token=$token"
  done
fi
# the last one that is made here: passwords belong together, so all are made or none
if exists monitoring grafana-admin; then
  echo "secrets: the other secrets are there; they were not changed"
  exit
fi

login=$(password) database=$(password)
secret nightshift postgresql <<< "POSTGRES_USER=mlflow
POSTGRES_PASSWORD=$database
POSTGRES_DB=mlflow"
# with its driver: which one stands for `postgresql` depends on the version of SQLAlchemy
secret nightshift mlflow <<< "MLFLOW_BACKEND_STORE_URI=postgresql+psycopg2://mlflow:$database@postgresql:5432/mlflow
MLFLOW_ARTIFACTS_DESTINATION=$artifacts
MLFLOW_FLASK_SERVER_SECRET_KEY=$(password)"
# steps log in with the same credentials as the registry has
for namespace in nightshift kubeflow; do
  secret $namespace nightshift-mlflow <<< "username=nightshift
password=$login"
done

database=$(password)
secret airflow postgresql <<< "POSTGRES_USER=airflow
POSTGRES_PASSWORD=$database
POSTGRES_DB=airflow"
secret airflow airflow-database <<< "connection=postgresql+psycopg2://airflow:$database@postgresql:5432/airflow"
secret airflow airflow-keys <<< "api-secret-key=$(password)
jwt-secret=$(password)$(password)$(password)"
secret airflow airflow-login <<< "passwords.json={\"admin\": \"$(password)\"}"

# in place of those that Kubeflow's manifests hold, which everybody knows
secret kubeflow mlpipeline-minio-artifact <<< "accesskey=kubeflow
secretkey=$(password)"
secret kubeflow mysql-secret <<< "username=root
password=$(password)"

secret monitoring grafana-admin <<< "admin-user=admin
admin-password=$(password)"
