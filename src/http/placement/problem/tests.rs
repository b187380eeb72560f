use axum::body::to_bytes;
use axum::http::header::{ACCEPT, ALLOW, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderName, Method};
use axum::response::Response;

use super::{Code, Offered, Problem, Recipient};
use crate::http::placement::microversion::{ERROR_CODES, INITIAL, Microversion};
use crate::model::Refusal;
use crate::store::Error;

fn render(problem: Problem, accept: &str, microversion: Option<Microversion>) -> Response {
    let headers = [(ACCEPT, accept), (CONTENT_TYPE, "text/x")];
    let headers: HeaderMap =
        headers.into_iter().map(|(name, value)| (name, value.parse().unwrap())).collect();
    let (method, offered) = (&Method::PUT, &Offered::of(&headers));
    problem.render(&Recipient { method, offered, microversion, request_id: "req-1" })
}

async fn rendered(problem: Problem, accept: &str, microversion: Option<Microversion>) -> String {
    let response = render(problem, accept, microversion);
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

async fn json(problem: Problem, microversion: Option<Microversion>) -> String {
    rendered(problem, "application/json", microversion).await
}

#[tokio::test]
async fn json_is_an_error_with_its_detail_in_its_setting() {
    assert_eq!(
        json(Problem::bad_request("Why <b>not</b>?\nSo."), Some(INITIAL)).await,
        "{\"errors\":[{\"status\":400,\"title\":\"Bad Request\",\"detail\":\"The server could not \
         comply with the request since it is either malformed or otherwise incorrect.\\n\\n Why \
         not? So.  \",\"request_id\":\"req-1\"}]}"
    );
    assert_eq!(
        json(Problem::not_found(""), Some(INITIAL)).await,
        "{\"errors\":[{\"status\":404,\"title\":\"Not Found\",\"detail\":\"The resource could not \
         be found.\\n\\n   \",\"request_id\":\"req-1\"}]}"
    );
    assert_eq!(
        json(Problem::method_not_allowed("No.", "GET".to_owned()), Some(INITIAL)).await,
        "{\"errors\":[{\"status\":405,\"title\":\"Method Not Allowed\",\"detail\":\"The method PUT \
         is not allowed for this resource. \\n\\n No.\",\"request_id\":\"req-1\"}]}"
    );
    assert_eq!(
        json(Problem::unsupported_media_type("No."), Some(INITIAL)).await,
        "{\"errors\":[{\"status\":415,\"title\":\"Unsupported Media Type\",\"detail\":\"The request \
         media type text/x is not supported by this server. \\n\\n No.\",\"request_id\":\"req-1\"}]}"
    );
}

#[tokio::test]
async fn codes_are_shown_from_1_23() {
    let conflict = || Problem::conflict("x").code(Code::ConcurrentUpdate);
    let with_code = json(conflict(), Some(ERROR_CODES)).await;
    assert!(with_code.contains("\"code\":\"placement.concurrent_update\""), "{with_code}");
    let undefined = json(Problem::conflict("x"), Some(ERROR_CODES)).await;
    assert!(undefined.contains("\"code\":\"placement.undefined_code\""), "{undefined}");
    assert!(!json(conflict(), Some(INITIAL)).await.contains("code"));
    assert!(!json(conflict(), None).await.contains("code"));
}

#[tokio::test]
async fn an_unsupported_version_is_refused_with_the_range() {
    let unknown = json(Problem::not_acceptable("x"), None).await;
    assert!(unknown.ends_with("\"max_version\":\"1.39\",\"min_version\":\"1.0\"}]}"), "{unknown}");
    let known = json(Problem::not_acceptable("x"), Some(INITIAL)).await;
    assert!(!known.contains("max_version"), "{known}");
}

#[tokio::test]
async fn an_unauthenticated_caller_gets_a_plain_text_error() {
    let text = json(Problem::unauthorized(), None).await;
    assert!(text.starts_with("{\"message\":\"This server could not verify"), "{text}");
    assert!(text.ends_with(
        "<br /><br />\\n\\n\\n\",\"code\":\"401 Unauthorized\",\"title\":\"Unauthorized\"}"
    ));
}

#[tokio::test]
async fn html_and_text_are_given_to_those_who_accept_only_them() {
    assert_eq!(
        rendered(Problem::not_acceptable("<it's>"), "text/html", Some(INITIAL)).await,
        "<html>\n <head>\n  <title>406 Not Acceptable</title>\n </head>\n <body>\n  \
         <h1>406 Not Acceptable</h1>\n  The resource could not be generated that was acceptable to \
         your browser\n(content of type text/html. <br /><br />\n&lt;it&#x27;s&gt;\n </body>\n</html>"
    );
    assert_eq!(
        rendered(Problem::not_found("It is \"é\"."), "text/plain", Some(INITIAL)).await,
        "404 Not Found\n\nThe resource could not be found.\n\n It is \"é\".  "
    );
}

#[test]
fn headers_say_what_else_there_is() {
    let header = |problem: Problem, accept, name: HeaderName| {
        let response = render(problem, accept, Some(INITIAL));
        response.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
    };
    let not_allowed = || Problem::method_not_allowed("", "GET, PUT".to_owned());
    assert_eq!(header(not_allowed(), "*/*", ALLOW).as_deref(), Some("GET, PUT"));
    assert_eq!(header(Problem::unavailable("x"), "*/*", RETRY_AFTER).as_deref(), Some("1"));
    for (accept, expected) in [
        ("*/*", "application/json"),
        ("text/html", "text/html; charset=UTF-8"),
        ("image/png", "text/plain; charset=UTF-8"),
    ] {
        assert_eq!(header(not_allowed(), accept, CONTENT_TYPE).as_deref(), Some(expected));
    }
}

#[tokio::test]
async fn a_cause_is_for_the_log_only() {
    for error in [Error::bug("secret"), Error::Unavailable("secret".to_owned())] {
        let problem = Problem::from(error);
        assert_eq!(problem.cause.as_deref(), Some("secret"));
        assert!(!json(problem, Some(INITIAL)).await.contains("secret"));
    }
    let problem = Problem::from(Error::inconsistent("consumers", "project_id", "consumer 7"));
    let cause = "inconsistent data: consumers.project_id of consumer 7";
    assert_eq!((problem.status.as_u16(), problem.cause.as_deref()), (500, Some(cause)));
    assert!(!json(problem, Some(INITIAL)).await.contains("consumer"));
}

#[test]
fn refusals_of_the_store_are_404_or_409() {
    let status = |why: Refusal| Problem::from(Error::from(why)).status.as_u16();
    assert_eq!(status(Refusal::ClassNotFound("X".to_owned())), 404);
    assert_eq!(status(Refusal::TraitInUse { name: "X".to_owned(), providers: Vec::new() }), 409);
}
