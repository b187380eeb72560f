//! Signing in and out.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};

use super::context::{Console, Problem};
use super::form::{Form, check_origin};
use super::page::{Shell, SignInPage, html, see_other};
use super::session::{Site, set_cookie};
use crate::auth::keystone::{Credentials, Domain, Scope, Secret, User};
use crate::http::api::dialect::context;
use crate::http::api::intake;
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::http::layers::identity::Identity;
use crate::http::layers::proxy::Remote;

/// Maximum size of the form, in bytes: requests without a caller do not count towards `--max-requests`.
const FORM_MAX: usize = 16 * 1024;

/// `GET /ui/sign-in`
pub(super) async fn show(shell: Shell, request: Request) -> Result<Reply, Problem> {
    let Site { base: next, has_keystone, .. } =
        context::<Console>(request.extensions())?.facts.clone();
    Ok(html(&SignInPage { shell, next, why: None, has_keystone }))
}

/// `POST /ui/sign-in`: takes a token, or a name and a password for Keystone.
pub(super) async fn submit(
    State(app): State<Arc<App>>,
    shell: Shell,
    request: Request,
) -> Result<Reply, Problem> {
    let (parts, body) = request.into_parts();
    check_origin(&parts.headers)?;
    let body = intake::read_at_most(FORM_MAX, body, &app.options).await?;
    let form = Form::parse(&body)?;
    let site = &context::<Console>(&parts.extensions)?.facts;
    let next = form.next(site);
    let remote = parts.extensions.get::<Remote>().and_then(|remote| remote.0);
    let token = match (&app.identity, form.field("token")) {
        (_, Some(token)) => Some(token.to_owned()),
        (Identity::NoAuth, None) => form.field("user").map(str::to_owned),
        (Identity::Keystone(keystone), None) => {
            let issued = keystone.sign_in(&form.credentials()?, remote).await;
            issued.map_err(|failure| Problem::without_keystone(failure.to_string()))?
        }
    };
    if let Some(token) = token {
        return Ok(see_other(&next).header(header::SET_COOKIE, &set_cookie(site, &token)));
    }
    let why = Some("Keystone does not accept this name, password or scope.");
    let page = SignInPage { shell, next, why, has_keystone: site.has_keystone };
    Ok(html(&page).status(StatusCode::UNAUTHORIZED))
}

/// `POST /ui/sign-out`: deletes the cookie.
pub(super) async fn sign_out(request: Request) -> Result<Reply, Problem> {
    check_origin(request.headers())?;
    let site = &context::<Console>(request.extensions())?.facts;
    let reply = see_other(&format!("{}/sign-in", site.base));
    Ok(reply.header(header::SET_COOKIE, &set_cookie(site, "")))
}

impl Form {
    /// Returns the path to which the form leads: a page of the console.
    fn next(&self, site: &Site) -> String {
        let is_page = |next: &&str| {
            let rest = next.strip_prefix(&site.base);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
                && next.bytes().all(|byte| byte.is_ascii_graphic())
        };
        self.field("next").filter(is_page).unwrap_or(&site.base).to_owned()
    }

    fn credentials(&self) -> Result<Credentials, Problem> {
        let missing = |name| Problem::bad_request(format!("The form needs a {name}."));
        let domain = |name| Domain::Name(self.field(name).unwrap_or("Default").to_owned());
        let user = self.field("user").ok_or_else(|| missing("user"))?;
        let password = self.0.iter().find(|(name, _)| name == "password");
        let (_, password) = password.ok_or_else(|| missing("password"))?;
        let scope = match self.field("project") {
            Some(name) => Scope::Project(User::Name(name.to_owned(), domain("project_domain"))),
            None => Scope::System,
        };
        Ok(Credentials::Password {
            user: User::Name(user.to_owned(), domain("user_domain")),
            password: Secret(password.clone()),
            scope,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Form, Site};

    #[test]
    fn a_form_leads_to_pages_of_the_console_only() {
        let site = Site { base: "/placement/ui".to_owned(), ..Site::default() };
        let next = |next: &str| Form(vec![("next".to_owned(), next.to_owned())]).next(&site);
        assert_eq!(next("/placement/ui/why?query=a%26b"), "/placement/ui/why?query=a%26b");
        for other in [
            "",
            "https://evil.example",
            "//evil.example",
            "/placement/uix",
            "/placement/ui/\r\nA: b",
        ] {
            assert_eq!(next(other), "/placement/ui", "{other}");
        }
    }
}
