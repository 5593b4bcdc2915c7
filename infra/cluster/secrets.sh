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

# is_shared NAME: whether the servers and the steps that log in to them have a secret; an older cluster may lack one
is_shared() { exists nightshift "$1" && exists kubeflow "$1"; }

# remind NAME: a secret that a cluster gets later takes a restart
remind() {
  if exists monitoring grafana-admin; then
    echo "secrets: $1 is new; servers read it at their start: kubectl rollout restart deployment --namespace nightshift"
  fi
}

# the token that served models require of requests, which the release step sends
if ! is_shared nightshift-serving; then
  token=$(password)
  for namespace in nightshift kubeflow; do
    secret $namespace nightshift-serving <<< "token=$token"
  done
  remind nightshift-serving
fi
# the registry's login, which its server reads at its start
if ! is_shared nightshift-mlflow; then
  login=$(password)
  for namespace in nightshift kubeflow; do
    secret $namespace nightshift-mlflow <<< "username=nightshift
password=$login"
  done
  remind nightshift-mlflow
fi
# the last one that is made here: passwords belong together, so all are made or none
if exists monitoring grafana-admin; then
  echo "secrets: the other secrets are there; they were not changed"
  exit
fi

database=$(password)
secret nightshift postgresql <<< "POSTGRES_USER=mlflow
POSTGRES_PASSWORD=$database
POSTGRES_DB=mlflow"
# with its driver: which one stands for `postgresql` depends on the version of SQLAlchemy
secret nightshift mlflow <<< "MLFLOW_BACKEND_STORE_URI=postgresql+psycopg2://mlflow:$database@postgresql:5432/mlflow
MLFLOW_ARTIFACTS_DESTINATION=$artifacts
MLFLOW_FLASK_SERVER_SECRET_KEY=$(password)"

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
