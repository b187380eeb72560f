//! Properties of the whole API: its documents, methods, errors, and authorization.

use berth::http::app::Options;
use berth::http::layers::cors::Cors;
use serde_json::{Value, json};

use crate::site::{Asker, Host, Site};

/// Makes a group and gives its id.
async fn group(admin: &Asker, name: &str) -> String {
    let body = json!({"name": name, "type": "exclusivity"});
    let group = admin.post("/v1/groups", body).await.expect(201).json();
    group["id"].as_str().unwrap().to_owned()
}

const MEMBER: &str = "b7d0e9b175294b649464caa3411adb3f";

/// Every path, with an item that exists where one is named, and its methods.
async fn paths(site: &Site) -> Vec<(String, &'static str)> {
    let admin = &site.admin();
    site.hosts(&[Host { name: "h", size: [1, 512, 1], traits: &[] }]).await;
    let server = json!({"name": "n", "type": "OS::Nova::Server",
                        "properties": {"flavor": "m1.tiny"}});
    let plan = json!({"plan_name": "p", "stack_id": "s", "resources": {"o": server}});
    admin.post("/v1/plans", plan).await.expect(201);
    let group = group(admin, "g").await;
    let path = format!("/v1/groups/{group}/members");
    admin.put(&path, json!({"members": [MEMBER]})).await.expect(201);
    vec![
        ("/".to_owned(), "GET"),
        ("/v1/".to_owned(), "GET"),
        ("/v1/groups".to_owned(), "GET,POST"),
        (format!("/v1/groups/{group}"), "GET,PUT,DELETE"),
        (format!("/v1/groups/{group}/members"), "PUT,DELETE"),
        (format!("/v1/groups/{group}/members/{MEMBER}"), "GET,DELETE"),
        ("/v1/placements".to_owned(), "GET,POST"),
        ("/v1/placements/o".to_owned(), "GET,POST,DELETE"),
        ("/v1/plans".to_owned(), "GET,POST"),
        ("/v1/plans/s".to_owned(), "GET,PUT,DELETE"),
        ("/v1/resources".to_owned(), "GET"),
        ("/v1/status".to_owned(), "HEAD,GET"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn r01_version_document() {
    let site = Site::new().await;
    let document = |base: &str| {
        let links = json!([{"href": format!("{base}/v1/"), "rel": "self"}]);
        json!({"versions": [{"status": "CURRENT", "id": "v1.0", "links": links}]})
    };
    let answer = site.stranger().header("host", "ostro:8090").get("/").await.expect(200);
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.json(), document("http://ostro:8090"));
    // A token that is no good does not matter where none is needed.
    site.stranger().header("x-auth-token", "").get("/").await.expect(200);
    // The other API keeps its own.
    let other = site.placement().get("/").await.expect(200).json();
    assert_eq!(other["versions"][0]["max_version"], "1.39");
}

#[tokio::test(flavor = "multi_thread")]
async fn r02_endpoint_links() {
    let site = Site::new().await;
    let tenant = site.tenant("p").header("host", "ostro:8090");
    let answer = tenant.get("/v1/").await.expect(200).json();
    assert_eq!(answer["versions"][0]["id"], "v1.0");
    let links = answer["versions"][0]["links"].as_array().unwrap().clone();
    let links: Vec<&str> = links.iter().map(|link| link["href"].as_str().unwrap()).collect();
    let expected = ["groups", "placements", "plans", "resources", "status"];
    assert_eq!(links, expected.map(|name| format!("http://ostro:8090/v1/{name}/")));
}

#[tokio::test(flavor = "multi_thread")]
async fn r03_options_on_every_path() {
    let site = Site::new().await;
    let admin = site.admin();
    for (path, allow) in paths(&site).await {
        let answer = admin.ask("OPTIONS", &path, None).await.expect(204);
        assert_eq!((answer.header("allow"), answer.body.len()), (allow, 0), "{path}");
    }
    site.stranger().ask("OPTIONS", "/", None).await.expect(204);
    for missing in [
        "/v1/groups/no",
        "/v1/groups/no/members",
        "/v1/groups/g/members/no",
        "/v1/placements/no",
        "/v1/plans/no",
        "/v1/no",
    ] {
        admin.ask("OPTIONS", missing, None).await.explanation(404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r04_methods_that_are_not_allowed() {
    let site = Site::new().await;
    let admin = site.admin();
    for (path, allow) in paths(&site).await {
        for method in ["GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "COPY", "TRACE", "get"] {
            if allow.split(',').any(|known| known == method) {
                continue;
            }
            let answer = admin.ask(method, &path, None).await;
            assert_eq!((answer.status, answer.header("allow")), (405, allow), "{method} {path}");
            if method == "HEAD" {
                continue;
            }
            let body = answer.json();
            assert_eq!(body["explanation"], format!("The {method} method is not allowed."));
            assert_eq!(body["title"], "Method Not Allowed");
            assert_eq!(body["error"]["type"], "HTTPMethodNotAllowed");
            let message = body["error"]["message"].as_str().unwrap();
            assert!(message.starts_with("The server could not comply with"), "{message}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r05_error_body() {
    let site = Site::new().await;
    let admin = site.admin();
    let answer = admin.post("/v1/groups", json!({"name": "gro up", "type": "exclusivity"})).await;
    assert_eq!(answer.status, 400);
    let expected = json!({
        "title": "Bad Request",
        "explanation": "-> name -> gro up did not pass validation against callable: \
                        group_name_type (must contain only uppercase and lowercase letters, decimal \
                        digits, hyphens, periods, underscores, and tildes [RFC 3986, Section 2.3])",
        "code": 400,
        "error": {
            "message": "The server could not comply with the request since it is either malformed \
                        or otherwise incorrect.",
            "traceback": null,
            "type": "HTTPBadRequest",
        },
    });
    assert_eq!(answer.json(), expected);
    let answer = admin.get("/v1/no/such/path").await;
    let expected = json!({
        "title": "Not Found",
        "explanation": "The resource could not be found.",
        "code": 404,
        "error": {
            "message": "The resource could not be found.",
            "traceback": null,
            "type": "HTTPNotFound",
        },
    });
    assert_eq!(answer.json(), expected);
    // The client's Accept and Content-Type headers are ignored.
    let odd = admin.header("accept", "text/html").header("content-type", "text/plain");
    odd.get("/v1/groups/no").await.explanation(404);
    odd.post("/v1/groups", json!({"name": "a", "type": "exclusivity"})).await.expect(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn r06_plain_words_for_strangers() {
    let site = Site::new().await;
    for (method, path) in [
        ("GET", "/v1"),
        ("GET", "/v1/"),
        ("GET", "/v1/groups"),
        ("OPTIONS", "/v1/groups"),
        ("HEAD", "/v1/status"),
        ("COPY", "/v1/groups"),
        ("GET", "/v1/no/such/path"),
        ("GET", "/no/such/path"),
    ] {
        let answer = site.stranger().ask(method, path, None).await.expect(401);
        assert_eq!(answer.header("content-type"), "text/plain; charset=UTF-8", "{path}");
        if method != "HEAD" {
            assert_eq!(answer.text(), "Authentication required", "{method} {path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r07_token_project_and_role() {
    let site = Site::new().await;
    let (tenant, admin) = (site.tenant("p"), site.admin_of("p"));
    for path in ["/v1/", "/v1/status"] {
        tenant.get(path).await.expect(200);
        admin.get(path).await.expect(200);
    }
    // Groups are for administrators; nothing says so, and nothing is answered with 403.
    let group = group(&admin, "g").await;
    for (method, path) in [
        ("GET", "/v1/groups".to_owned()),
        ("POST", "/v1/groups".to_owned()),
        ("COPY", "/v1/groups".to_owned()),
        ("GET", format!("/v1/groups/{group}")),
        ("GET", "/v1/groups/no".to_owned()),
        ("OPTIONS", format!("/v1/groups/{group}/members")),
    ] {
        let answer = tenant.ask(method, &path, None).await.expect(401);
        assert_eq!(answer.text(), "Authentication required");
    }
    // The role makes an administrator, in any project.
    tenant.clone().header("x-roles", "reader, Admin").get("/v1/groups").await.expect(200);
    // A token without a project is refused.
    site.stranger().header("x-auth-token", ":").get("/v1/").await.expect(401);
}

#[tokio::test(flavor = "multi_thread")]
async fn r08_trailing_slash() {
    let site = Site::new().await;
    let admin = site.admin();
    let group = {
        let body = json!({"name": "g", "type": "exclusivity"});
        let group = admin.post("/v1/groups/", body).await.expect(201).json();
        group["id"].as_str().unwrap().to_owned()
    };
    for path in ["/v1", "/v1/groups/", "/v1/status/"] {
        admin.get(path).await.expect(200);
    }
    admin.get(&format!("/v1/groups/{group}/")).await.expect(200);
    let members = format!("/v1/groups/{group}/members/");
    admin.put(&members, json!({"members": [MEMBER]})).await.expect(201);
    admin.get(&format!("{members}{MEMBER}/")).await.expect(204);
    for path in ["/v1//groups", "/v1/groups//", "//v1"] {
        admin.get(path).await.explanation(404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forwarded_prefixes_are_in_links() {
    let site = Site::new().await;
    let app = site.app().clone().with_trusted_proxies(
        berth::http::layers::proxy::Trusted::parse(&["127.0.0.1".to_owned()]).unwrap(),
    );
    let site = Site::serving(app, &site.database).await;
    let proxied = site
        .tenant("p")
        .header("x-forwarded-proto", "https")
        .header("x-forwarded-host", "cloud")
        .header("x-forwarded-prefix", "/ostro");
    let links = proxied.get("/v1/").await.expect(200).json()["versions"][0]["links"].clone();
    assert_eq!(links[0]["href"], "https://cloud/ostro/v1/groups/");
    let root: Value = proxied.get("/").await.expect(200).json();
    assert_eq!(root["versions"][0]["links"][0]["href"], "https://cloud/ostro/v1/");
}

/// As for the other API, the preflight request of a browser gets its response before authentication.
#[tokio::test(flavor = "multi_thread")]
async fn pages_of_allowed_origins_may_ask() {
    let cors = Some(Cors::new(&["https://page".to_owned()]).unwrap());
    let site = Site::with(Options { cors, ..Options::default() }).await;
    let page = site.stranger().header("origin", "https://page");
    let asking = page.clone().header("access-control-request-method", "GET");
    let answer = asking.ask("OPTIONS", "/v1/groups", None).await.expect(200);
    assert_eq!(answer.header("access-control-allow-origin"), "https://page");
    let answer = page.get("/v1/groups").await.expect(401);
    assert_eq!(answer.header("access-control-allow-origin"), "https://page");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_have_what_every_answer_has() {
    let site = Site::new().await;
    for answer in [
        site.stranger().get("/").await,
        site.stranger().get("/v1/").await,
        site.admin().get("/v1/groups").await,
        site.admin().get("/v1/no").await,
    ] {
        assert!(answer.header("x-openstack-request-id").starts_with("req-"));
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
    }
}
