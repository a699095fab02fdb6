use super::*;

fn profiles(toml: &str, images: &[&str]) -> Result<Profiles, String> {
    let images: Vec<String> = images.iter().map(|&image| image.to_owned()).collect();
    Profiles::new(toml::from_str(toml).map_err(|error| error.to_string())?, &images)
}

fn asks(environment: Option<&str>) -> LaunchRequest {
    LaunchRequest { environment: environment.map(str::to_owned), ..LaunchRequest::default() }
}

#[test]
fn without_a_configuration_there_are_our_two_images() {
    let none = profiles("", &[]).unwrap();
    assert_eq!(none.resolve(&asks(None)).unwrap().image, Image::Ours("python"));
    let scientific = none.resolve(&asks(Some("scientific"))).unwrap();
    assert_eq!((scientific.image, scientific.egress), (Image::Ours("scientific"), None));
    let refused = none.resolve(&asks(Some("gpu"))).unwrap_err().to_string();
    assert!(refused.contains("default, python, scientific"), "{refused}");
}

#[test]
fn a_profile_says_what_is_else_as_in_the_default_one() {
    let table = profiles(
        "[default]\nmemory = '1Gi'\negress = 'none'\n[ml]\nimage = 'host:5000/ml:1'\nversions = ['2']\nmemory = '4Gi'",
        &[],
    )
    .unwrap();
    let ml = table.resolve(&asks(Some("ml"))).unwrap();
    assert_eq!((ml.memory, ml.egress), (Size(4 << 30), Some(Egress::None)));
    assert_eq!(table.resolve(&asks(Some("scientific"))).unwrap().memory, Size(1 << 30));
    let versioned = |version: &str| {
        table.resolve(&LaunchRequest { environment_version: Some(version.to_owned()), ..asks(Some("ml")) })
    };
    assert_eq!(versioned("2").unwrap().image, Image::Named("host:5000/ml:2".to_owned()));
    assert!(versioned("3").unwrap_err().to_string().contains("it has 2"));
    assert!(profiles("[a]\nmemory = '1Mi'", &[]).unwrap_err().contains("environments.a"));
    for wrong in [
        "cpu = 0",
        "cpu = nan",
        "pids = 0",
        "disk = 0",
        "image = ''",
        "image = 'a b'",
        "versions = ['']",
        "memory = '99999Ti'",
        "cpu = inf",
        "memory = -1",
        "gpu = 0",
        "gpu = 1.5",
    ] {
        assert!(profiles(&format!("[a]\n{wrong}"), &[]).is_err(), "{wrong}");
    }
    assert!(profiles("[a]\ngpu = 1.0\nmemory = 1073741824", &[]).is_ok());
    assert!(profiles("[a]\nmemroy = '1Gi'", &[]).unwrap_err().contains("memroy"));
}

#[test]
fn a_caller_asks_for_less_and_never_for_more() {
    let table = profiles("[default]\nmemory = '1Gi'\ncpu = 1.5\n[gpu]\ngpu = '2'", &[]).unwrap();
    let with = |memory: Option<&str>, cpu| LaunchRequest { memory: memory.map(str::to_owned), cpu, ..asks(None) };
    let less = table.resolve(&with(Some("512Mi"), Some(0.5))).unwrap();
    assert_eq!((less.memory, less.cpu), (Size(512 << 20), 0.5));
    for (memory, cpu) in [(Some("2Gi"), None), (Some("1Mi"), None), (Some("x"), None), (None, Some(2.0))] {
        assert!(table.resolve(&with(memory, cpu)).is_err(), "{memory:?} {cpu:?}");
    }
    for cpu in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(table.resolve(&with(None, Some(cpu))).is_err(), "{cpu}");
    }
    let gpu = |environment, gpu: &str| {
        table.resolve(&LaunchRequest { gpu: Some(gpu.to_owned()), ..asks(environment) }).map(|resources| resources.gpu)
    };
    assert_eq!(gpu(Some("gpu"), "1").unwrap(), Some(Gpu::Some(1)));
    assert!(gpu(Some("gpu"), "all").is_err() && gpu(Some("gpu"), "0").is_err() && gpu(None, "1").is_err());
    assert_eq!(table.resolve(&asks(Some("gpu"))).unwrap().gpu, Some(Gpu::Some(2)));
}

#[test]
fn only_a_listed_image_may_be_named() {
    let table = profiles("", &["team/*:1.*", "exact@sha256:0"]).unwrap();
    let named = |image: &str| table.resolve(&LaunchRequest { image: Some(image.to_owned()), ..asks(None) });
    assert!(named("team/a:1.2").is_ok() && named("exact@sha256:0").is_ok());
    for image in [
        "team/a:1.2@sha256:1",
        "team/../a:1.0",
        "team/a:1.0/",
        "team/a:2",
        "team/a/b:1.0",
        "evil/team/a:1.0",
        "team/a",
        "",
        "docker.io/team/a:1.0",
    ] {
        assert!(matches!(named(image), Err(ProviderError::Forbidden(_))), "{image}");
    }
}
