use time::OffsetDateTime;
use uuid::Uuid;

use super::super::cloud::{Cloud, Place, ServerState};
use super::{Lists, time};

const ONE: &str = "00000000-0000-0000-0000-000000000001";
const TWO: &str = "00000000-0000-0000-0000-000000000002";

fn cloud(texts: &[&str]) -> Result<Cloud, String> {
    let mut lists = Lists::default();
    for text in texts {
        lists.add("servers.json", text.as_bytes())?;
    }
    lists.into_cloud(OffsetDateTime::UNIX_EPOCH)
}

fn row(columns: &str) -> String {
    format!(r#"{{"ID": "{ONE}", "Name": "a", {columns}}}"#)
}

fn place(names: &[&str]) -> Place {
    Place::Named(names.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn the_output_of_the_client_is_parsed() {
    let text = r#"[{"ID": "ONE", "Name": "a", "Status": "ACTIVE", "Task State": null, "Power State": 1,
        "Networks": {"net": ["10.0.0.2"]}, "Image Name": "cirros", "Image ID": "i", "Flavor": "m1",
        "Availability Zone": "nova", "Host": "node-1", "Properties": {}, "Project ID": "p"},
        {"ID": "TWO", "Status": "ACTIVE", "Task State": "migrating", "Host": "node-2", "Flavor Name": "m1",
        "Image": "x", "Power State": "Running", "Networks": "net=10.0.0.3"}]"#;
    let cloud = cloud(&[&text.replace("ONE", ONE).replace("TWO", TWO)]).unwrap();
    let one = &cloud.servers[&Uuid::from_u128(1)];
    assert_eq!((&one.state, &one.place), (&ServerState::Settled, &place(&["node-1"])));
    assert_eq!((one.project.as_deref(), one.user.as_deref()), (Some("p"), None));
    assert_eq!(one.needs, None);
    let two = &cloud.servers[&Uuid::from_u128(2)];
    assert_eq!(two.state, ServerState::Busy("migrating".to_owned()));
    assert_eq!(cloud.doubt, None);
}

#[test]
fn pages_of_the_api_are_understood() {
    let server = |id: &str, rest: &str| {
        format!(
            r#"{{"id": "{id}", "status": "ACTIVE", "OS-EXT-STS:task_state": null, "tenant_id": "p",
            "user_id": "u", "created": "2026-11-22T10:00:00Z", "updated": "2026-11-22T11:00:00Z",
            "OS-EXT-SRV-ATTR:host": "h", "OS-EXT-SRV-ATTR:hypervisor_hostname": "n.example", {rest}}}"#
        )
    };
    let flavor = r#""flavor": {"vcpus": 2, "ram": 512, "disk": 10, "ephemeral": 0, "swap": 0,
        "original_name": "m1", "extra_specs": {}}"#;
    let first = server(ONE, &format!(r#""image": "", {flavor}"#));
    let next = r#""servers_links": [{"rel": "next", "href": "http://nova/?marker=1"}]"#;
    let first = format!(r#"{{"servers": [{first}], {next}}}"#);
    let second = server(TWO, r#""image": {"id": "i"}, "flavor": {"id": "7", "links": []}"#);
    let second = format!(r#"{{"servers": [{second}]}}"#);
    let both = cloud(&[&format!("{first}\n{second}\n")]).unwrap();
    let one = &both.servers[&Uuid::from_u128(1)];
    assert_eq!(one.place, place(&["n.example", "h"]));
    assert_eq!((one.project.as_deref(), one.user.as_deref()), (Some("p"), Some("u")));
    assert_eq!(one.changed, time("2026-11-22T11:00:00Z"));
    let needs = one.needs.clone().unwrap();
    // The root disk is a volume.
    assert_eq!((needs.resources.get("DISK_GB"), needs.obstacle), (None, None));
    assert_eq!(both.servers[&Uuid::from_u128(2)].needs, None);
    let why = cloud(&[&first]).unwrap_err();
    assert!(why.contains("the last page is missing"), "{why}");
}

#[test]
fn servers_that_may_be_on_no_host() {
    let columns = r#""Status": "SHELVED_OFFLOADED", "Task State": "None", "Host": null"#;
    let other = format!(r#"{{"ID": "{TWO}", "Status": "BUILD", "Host": "h"}}"#);
    let found = cloud(&[&format!("[{}, {other}]", row(columns))]).unwrap();
    let one = &found.servers[&Uuid::from_u128(1)];
    assert_eq!((&one.state, &one.place), (&ServerState::Settled, &Place::Nowhere));
    assert_eq!(found.servers[&Uuid::from_u128(2)].state, ServerState::Busy("BUILD".to_owned()));
    // In a cell that does not respond.
    let found = cloud(&[&format!("[{}, {other}]", row(r#""Status": "UNKNOWN""#))]).unwrap();
    assert_eq!(found.servers[&Uuid::from_u128(1)].state, ServerState::Unknown);
}

#[test]
fn a_server_that_changes_between_pages_is_busy() {
    let on = |host: &str| format!("[{}]", row(&format!(r#""Status": "ACTIVE", "Host": "{host}""#)));
    let same = cloud(&[&on("a"), &on("a")]).unwrap();
    assert_eq!(same.servers[&Uuid::from_u128(1)].state, ServerState::Settled);
    let moved = cloud(&[&on("a"), &on("b")]).unwrap();
    assert_eq!(moved.servers[&Uuid::from_u128(1)].state, ServerState::Busy("changing".to_owned()));
}

#[test]
fn a_list_of_as_many_servers_as_a_page_has_may_be_cut_off() {
    let rows: Vec<String> = (0..1000)
        .map(|nth| {
            let uuid = Uuid::from_u128(nth);
            format!(r#"{{"ID": "{uuid}", "Status": "ACTIVE", "Host": "h"}}"#)
        })
        .collect();
    let found = cloud(&[&format!("[{}]", rows.join(","))]).unwrap();
    assert!(found.doubt.unwrap().contains("--limit -1"));
}

#[test]
fn a_file_that_is_no_list_of_servers_is_refused() {
    for (text, named) in [
        ("", "is empty"),
        ("[]", "there are no servers"),
        ("not JSON", "is not a list of servers as JSON"),
        (r#"[{"ID": "#, "it is cut off"),
        (r#"{"flavors": []}"#, "it has no \"servers\""),
        (r#"[{"Name": "a"}]"#, "server 1: it has no ID"),
        (r#"[{"ID": "7", "Status": "ACTIVE", "Host": "h"}]"#, "the ID \"7\" is not a UUID"),
        (&format!("[{}]", row(r#""Host": "h""#)), "it has no Status"),
        (&format!("[{}]", row(r#""Status": "ACTIVE""#)), "--long"),
        (
            &format!("[{}]", row(r#""Status": "ACTIVE", "Host": null"#)),
            "it is ACTIVE and has no Host",
        ),
        (&format!("[{}]", row(r#""Status": "ERROR", "Host": null"#)), "no server has a Host"),
        (&format!("[{}]", row(r#""Status": "DELETED", "Host": "h""#)), "only deleted servers"),
    ] {
        let why = cloud(&[text]).unwrap_err();
        assert!(why.contains(named) && why.contains("servers.json"), "{text}: {why}");
    }
}

#[test]
fn times_of_nova_have_a_zone_or_not() {
    let same = time("2026-11-22T10:00:00Z").unwrap();
    for text in ["2026-11-22T10:00:00", "2026-11-22 10:00:00", "2026-11-22T10:00:00.000000"] {
        assert_eq!(time(text), Some(same), "{text}");
    }
    assert_eq!(time("yesterday"), None);
}
