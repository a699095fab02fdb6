//! What the templates render.

use serde_json::{Value, json};

use crate::helm::{chart, helm, helm_ok, kubectl_command, objects, rendered, said};

/// Values that turn each feature on.
const FEATURES: [&[&str]; 8] = [
    &[],
    &["ingress.enabled=true", "ingress.tlsSecret=tls", "ingress.className=nginx"],
    &["persistence.enabled=true", "persistence.storageClass=fast"],
    &["prepull.enabled=true"],
    &["networkPolicy.egress=none"],
    &["networkPolicy.egress=custom", r#"networkPolicy.custom=[{"to":[{"ipBlock":{"cidr":"10.0.0.0/8"}}]}]"#],
    &[
        "sandboxes.storageClass=fast",
        r#"sandboxes.environments={"ml":{"image":"ml:1","memory":"8Gi","gpu":1,"pod":{"labels":{"a":"b"}}}}"#,
    ],
    &["sweep.enabled=false", "networkPolicy.enabled=false", r#"settings={"audit":"-"}"#],
];

fn kinds<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

#[test]
fn it_lints_and_every_feature_passes_the_api_servers_own_strict_validation() {
    helm_ok(&["lint", "--strict", chart().to_str().expect("text")]);
    let folder = tempfile::tempdir().expect("a directory");
    // What is to be validated has to have somewhere to be.
    let _ = kubectl_command().args(["create", "namespace", "gw-x-cellgate-sandboxes"]).output();
    for (number, values) in FEATURES.iter().enumerate() {
        let file = folder.path().join(format!("{number}.yaml"));
        std::fs::write(&file, rendered(values)).expect("it is written");
        let file = file.to_str().expect("text");
        let ran = kubectl_command()
            .args(["apply", "--dry-run=server", "--validate=strict", "-f", file])
            .output()
            .expect("kubectl runs");
        assert!(ran.status.success(), "{values:?}: {}", said(&ran));
    }
}

#[test]
fn the_gateway_and_its_jobs_keep_pod_security_restricted() {
    let objects = objects(&rendered(&["prepull.enabled=true"]));
    let pods = kinds(&objects, "Deployment").into_iter().map(|object| &object["spec"]["template"]["spec"]);
    let jobs =
        kinds(&objects, "CronJob").into_iter().map(|job| &job["spec"]["jobTemplate"]["spec"]["template"]["spec"]);
    let tests = kinds(&objects, "Pod").into_iter().map(|object| &object["spec"]);
    let sets = kinds(&objects, "DaemonSet").into_iter().map(|object| &object["spec"]["template"]["spec"]);
    let all: Vec<&Value> = pods.chain(jobs).chain(tests).chain(sets).collect();
    assert_eq!(all.len(), 4);
    for pod in all {
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{pod}");
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault", "{pod}");
        for container in pod["containers"].as_array().expect("a list") {
            let security = &container["securityContext"];
            assert_eq!(security["allowPrivilegeEscalation"], false, "{container}");
            assert_eq!(security["readOnlyRootFilesystem"], true, "{container}");
            assert_eq!(security["capabilities"]["drop"], json!(["ALL"]), "{container}");
            assert!(container["resources"]["limits"]["memory"].is_string(), "{container}");
        }
    }
}

#[test]
fn the_gateway_has_just_the_rights_that_it_uses_in_the_sandboxes_namespace_alone() {
    let objects = objects(&rendered(&[]));
    assert!(kinds(&objects, "ClusterRole").is_empty() && kinds(&objects, "ClusterRoleBinding").is_empty());
    let roles = kinds(&objects, "Role");
    assert_eq!((roles.len(), &roles[0]["metadata"]["namespace"]), (1, &json!("gw-x-cellgate-sandboxes")));
    let allowed: Vec<(Value, Value)> = roles[0]["rules"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|rule| (rule["resources"].clone(), rule["verbs"].clone()))
        .collect();
    assert_eq!(
        allowed,
        [
            (json!(["pods"]), json!(["create", "delete", "get", "list", "watch"])),
            (json!(["pods/log"]), json!(["get"])),
            (json!(["configmaps"]), json!(["create", "delete", "list"])),
            (json!(["secrets"]), json!(["create"])),
            (json!(["persistentvolumeclaims"]), json!(["create", "delete", "get", "list"])),
        ]
    );
}

#[test]
fn a_deployment_is_replaced_never_doubled_and_has_longer_than_its_drain() {
    let objects = objects(&rendered(&["drainSeconds=100"]));
    let deployment = kinds(&objects, "Deployment")[0];
    assert_eq!(deployment["spec"]["strategy"]["type"], "Recreate");
    assert!(deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].as_i64() > Some(103));
    let before = &objects_of(&["drainSeconds=100"])["checksum/config"];
    assert_ne!(before, &objects_of(&["drainSeconds=101"])["checksum/config"]);
}

fn objects_of(values: &[&str]) -> Value {
    let objects = objects(&rendered(values));
    kinds(&objects, "Deployment")[0]["spec"]["template"]["metadata"]["annotations"].clone()
}

#[test]
fn the_hosts_by_which_it_is_called_are_allowed() {
    let objects = objects(&rendered(&["ingress.enabled=true", "ingress.host=gate.example.org"]));
    let config = kinds(&objects, "ConfigMap")[0]["data"]["cellgate.toml"].as_str().expect("text").to_owned();
    for host in ["\"x-cellgate\"", "\"x-cellgate.gw.svc\"", "\"gate.example.org\""] {
        assert!(config.contains(host), "{host}: {config}");
    }
}

#[test]
fn names_stay_within_their_limits_and_apart() {
    let chart = chart();
    let chart = chart.to_str().expect("text");
    let rendered = |release: &str, namespace: &str| {
        let ran = helm(&["template", release, chart, "--namespace", namespace, "--kube-version", "1.34.4"]);
        assert!(ran.status.success(), "{}", said(&ran));
        String::from_utf8_lossy(&ran.stdout).into_owned()
    };
    let gateway = |text: &str| {
        let line = text.lines().find(|line| line.contains("kubernetes_gateway")).expect("a gateway");
        line.trim().to_owned()
    };
    let long = "n".repeat(63);
    let (one, other) = (rendered("one", &long), rendered("two", &long));
    assert_ne!(gateway(&one), gateway(&other));
    assert!(gateway(&one).len() <= "kubernetes_gateway = ''".len() + 63, "{}", gateway(&one));
    // A CronJob's name has at most 52 characters.
    let longest = rendered(&"r".repeat(53), "team");
    let names = longest.lines().filter_map(|line| line.strip_prefix("  name: "));
    assert!(names.clone().count() > 5 && names.clone().all(|name| name.len() <= 63), "{:?}", names.collect::<Vec<_>>());
    assert!(longest.lines().filter(|line| line.trim_end().ends_with("-sweep")).all(|line| line.trim().len() <= 58));
    // Releases of one name in two namespaces have namespaces of their own for their sandboxes.
    let sandboxes = |text: &str| text.contains("kubernetes_namespace = \"b-cellgate-sandboxes\"");
    assert!(sandboxes(&rendered("cellgate", "b")) && !sandboxes(&rendered("cellgate", "cellgate")));
}

#[test]
fn what_can_not_work_is_refused_with_the_reason() {
    let chart = chart();
    let chart = chart.to_str().expect("text");
    for (value, words) in [
        ("replicas=2", "maximum"),
        ("nonsense=1", "additional properties 'nonsense'"),
        ("networkPolicy.egress=everything", "egress"),
        ("settings.idle_timeout=5", "settings.idle_timeout is written by the chart"),
    ] {
        let ran = helm(&["template", "x", chart, "--kube-version", "1.34.4", "--set", value]);
        assert!(!ran.status.success() && said(&ran).contains(words), "{value}: {}", said(&ran));
    }
}
