//! The objects of a sandbox, as the API server is asked for them. Pure.
//!
//! The record object is made first and owns the others: when it is deleted, the cluster's own collector removes the rest. The claim
//! with the files stands on its own.

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::labels;
use crate::sandbox::profile::{Gpu, Resources};
use crate::sandbox::size::Size;
use crate::sandbox::threads::thread_counts;
use crate::sandbox::{Plan, Record};

pub(super) const PORT: u16 = 8888;
/// The container of a sandbox.
pub(super) const CONTAINER: &str = "jupyter";
const HOME: &str = "/home/sandbox";
const WORKSPACE: &str = "/workspace";
const USER: i64 = 1000;
/// Seconds that Jupyter gets to end its kernels.
const GRACE: i64 = 2;
const TMP: &str = "256Mi";
const HOME_SIZE: &str = "8Gi";
/// The least that the scheduler counts for a sandbox, of a core.
const CPU_REQUEST: f64 = 0.1;
/// The key of the record in its object.
const RECORD: &str = "record.json";
/// Seconds after its expiry until the cluster ends a pod whose gateway didn't.
const EXPIRY_GRACE: i64 = 60;

/// Everything that decides what a sandbox's objects are like.
pub(super) struct Making<'a> {
    pub(super) plan: &'a Plan,
    pub(super) resources: &'a Resources,
    pub(super) image: &'a str,
    pub(super) gateway: &'a str,
    /// The claim with its files; without one they end with the pod.
    pub(super) claim: Option<&'a str>,
}

/// What all of a sandbox's objects are called.
pub(super) fn name(id: &str) -> String {
    format!("cellgate-{id}")
}

/// An object from its JSON, which is written here and always is one.
fn object<T: serde::de::DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).unwrap_or_else(|error| unreachable!("an object of this crate: {error}"))
}

/// The record object: what is written down of the sandbox. No secret is in it.
pub(super) fn record(gateway: &str, plan: &Plan) -> ConfigMap {
    object(json!({
        "metadata": {
            "name": name(plan.id.as_str()),
            "labels": labels::of_sandbox(gateway, plan, "record"),
        },
        "data": {RECORD: plan.record},
    }))
}

/// The record in an object.
pub(super) fn record_in(object: &ConfigMap) -> Option<Record> {
    serde_json::from_str(object.data.as_ref()?.get(RECORD)?).ok()
}

/// Whether an object that is there is the same sandbox's, generation's and owner's as one that was to be made.
pub(super) fn is_of(there: &ObjectMeta, wanted: &ObjectMeta) -> bool {
    let labels = |meta: &ObjectMeta| meta.labels.clone().unwrap_or_default();
    let owners = |meta: &ObjectMeta| {
        let owners = meta.owner_references.iter().flatten();
        owners.map(|owner| owner.uid.clone()).collect::<Vec<_>>()
    };
    let has = labels(there);
    labels(wanted).iter().all(|(label, value)| has.get(label) == Some(value)) && owners(there) == owners(wanted)
}

/// The owner that everything else of a sandbox names.
fn owner(record: &ConfigMap) -> Value {
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: record.metadata.name.clone().unwrap_or_default(),
        uid: record.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(false),
    };
    json!([owner])
}

/// Its token and the variables that its caller chose.
pub(super) fn secret(making: &Making<'_>, record: &ConfigMap) -> Secret {
    let id = making.plan.id.as_str();
    let mut data = making.plan.request.env.clone();
    data.insert("JUPYTER_TOKEN".to_owned(), making.plan.token.expose_secret().to_owned());
    object(json!({
        "metadata": {
            "name": name(id),
            "labels": labels::of_sandbox(making.gateway, making.plan, "secret"),
            "ownerReferences": owner(record),
        },
        "immutable": true,
        "type": "Opaque",
        "stringData": data,
    }))
}

/// The pod: Pod Security "restricted", and more.
pub(super) fn pod(making: &Making<'_>, record: &ConfigMap) -> Pod {
    let (plan, resources) = (making.plan, making.resources);
    let id = plan.id.as_str();
    let workspace = match making.claim {
        Some(claim) => json!({"name": "workspace", "persistentVolumeClaim": {"claimName": claim}}),
        None => {
            json!({"name": "workspace", "emptyDir": {"sizeLimit": resources.disk.map_or(HOME_SIZE.to_owned(), bytes)}})
        }
    };
    let home = resources.disk.map_or(HOME_SIZE.to_owned(), bytes);
    let options = resources.pod.clone().unwrap_or_default();
    let pull_secrets: Vec<Value> = options.image_pull_secrets.iter().map(|name| json!({"name": name})).collect();
    let mut labels = options.labels;
    // Ours are what it is found by.
    labels.extend(labels::of_sandbox(making.gateway, plan, "sandbox"));
    object(json!({
        "metadata": {
            "name": name(id),
            "labels": labels,
            "ownerReferences": owner(record),
        },
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": deadline(plan),
            "terminationGracePeriodSeconds": GRACE,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "hostname": "sandbox",
            "runtimeClassName": resources.runtime,
            "nodeSelector": options.node_selector,
            "tolerations": options.tolerations,
            "imagePullSecrets": pull_secrets,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": 0, "fsGroup": 0,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": CONTAINER,
                "image": making.image,
                "imagePullPolicy": "IfNotPresent",
                "envFrom": [{"secretRef": {"name": name(id)}}],
                "env": variables(making),
                "ports": [{"name": "jupyter", "containerPort": PORT}],
                "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1, "failureThreshold": 120},
                "resources": limits(resources),
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "readOnlyRootFilesystem": true,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [
                    {"name": "home", "mountPath": HOME},
                    {"name": "workspace", "mountPath": WORKSPACE},
                    {"name": "tmp", "mountPath": "/tmp"},
                ],
            }],
            "volumes": [
                {"name": "home", "emptyDir": {"sizeLimit": home}},
                workspace,
                {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": TMP}},
            ],
        },
    }))
}

/// The claim with the files of a name, which outlives its sandboxes.
pub(super) fn claim(gateway: &str, plan: &Plan, name: &str, storage: &Storage) -> PersistentVolumeClaim {
    let labels = labels::of([
        (labels::MANAGED_BY, labels::PRODUCT),
        (labels::GATEWAY, gateway),
        (labels::ROLE, "files"),
        (labels::MADE_FOR, plan.id.as_str()),
    ]);
    // Names may hold what a label may not.
    let of = labels::of([
        (labels::TENANT, plan.owner.tenant.as_str()),
        (labels::PRINCIPAL, &plan.owner.principal),
        (labels::NAME, &plan.request.name),
    ]);
    object(json!({
        "metadata": {"name": name, "labels": labels, "annotations": of},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage.class,
            "resources": {"requests": {"storage": bytes(storage.size)}},
        },
    }))
}

/// What claims ask for.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    pub(super) class: String,
    pub(super) size: Size,
}

fn variables(making: &Making<'_>) -> Vec<Value> {
    let plan = making.plan;
    let mut variables = vec![
        ("CELLGATE_BASE_URL", plan.base_url.clone()),
        ("CELLGATE_PORT", PORT.to_string()),
        ("CELLGATE_ROOT_DIR", WORKSPACE.to_owned()),
        ("CELLGATE_SANDBOX", plan.id.to_string()),
        ("CELLGATE_INSTANCE", plan.instance.clone()),
    ];
    // These win over the Secret's, so what the caller chose stays out of them.
    let own = |name: &str| plan.request.env.contains_key(name);
    variables.extend(thread_counts(making.resources.cpu).filter(|(name, _)| !own(name)));
    variables.extend(plan.idle.map(|idle| ("CELLGATE_IDLE_SECONDS", idle.as_secs_f64().to_string())));
    variables.extend(plan.expires_at.map(|at| ("CELLGATE_EXPIRES_AT", at.as_second().to_string())));
    variables.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
}

fn limits(resources: &Resources) -> Value {
    let mut limits = json!({
        "memory": bytes(resources.memory),
        "cpu": format!("{}m", milli(resources.cpu)),
    });
    match resources.gpu {
        Some(Gpu::Some(count)) => limits["nvidia.com/gpu"] = json!(count.to_string()),
        Some(Gpu::All) | None => {}
    }
    let mut requests = limits.clone();
    requests["cpu"] = json!(format!("{}m", milli(resources.cpu.min(CPU_REQUEST))));
    json!({"limits": limits, "requests": requests})
}

fn bytes(size: Size) -> String {
    size.0.to_string()
}

fn milli(cores: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "cores are few")]
    let milli = (cores * 1000.0).ceil() as i64;
    milli
}

/// Seconds after which the kubelet ends the pod, with no gateway about.
fn deadline(plan: &Plan) -> Option<i64> {
    let left = plan.expires_at?.duration_since(jiff::Timestamp::now()).as_secs();
    Some(left.max(1) + EXPIRY_GRACE)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ObjectMeta, is_of, object};

    fn meta(sandbox: &str, generation: &str, owner: &str) -> ObjectMeta {
        let labels = json!({"cellgate.io/sandbox": sandbox, "cellgate.io/generation": generation});
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": owner});
        object(json!({"name": "n", "labels": labels, "ownerReferences": [owner]}))
    }

    #[test]
    fn an_object_is_known_by_sandbox_generation_and_owner() {
        let wanted = meta("s-1", "1", "u");
        assert!(is_of(&meta("s-1", "1", "u"), &wanted));
        for other in [meta("s-2", "1", "u"), meta("s-1", "2", "u"), meta("s-1", "1", "v"), ObjectMeta::default()] {
            assert!(!is_of(&other, &wanted), "{other:?}");
        }
        // Labels that somebody added don't make it another's.
        let mut more = meta("s-1", "1", "u");
        more.labels.get_or_insert_default().insert("team".to_owned(), "data".to_owned());
        assert!(is_of(&more, &wanted));
    }
}
