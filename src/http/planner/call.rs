//! One request as its handler sees it: routed, permitted, its body an object not yet understood.

use std::sync::Arc;

use percent_encoding::percent_decode_str;

use super::problem::Problem;
use super::schema::Object;
use crate::http::app::App;
use crate::http::external_url::ExternalUrl;
use crate::http::identity::Caller;
use crate::http::path::Captured;
use crate::planner::ids::canonical;
use crate::planning::{PlanRef, Planning};
use crate::policy::Rule;
use crate::store::planner::plans::Scope;
use crate::turns::Asker;

/// The parameter that says that nothing is to be written.
const DRY_RUN: &str = "dry_run";

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// What to answer it with.
    pub(super) app: Arc<App>,
    /// Who asks.
    pub(super) caller: Arc<Caller>,
    /// Whether the request may be about the plans and placements of all projects.
    pub(super) sees_all: bool,
    /// What the path's variable parts are, by name.
    pub(super) captured: Captured,
    /// The query: names and values, in their order.
    pub(super) query: Vec<(String, String)>,
    /// The body, empty if the route takes none.
    pub(super) body: Object,
    /// Where the client found us.
    pub(super) site: ExternalUrl,
}

impl Call {
    /// A variable part of the path, by the name it has in the route.
    pub(super) fn part(&self, name: &str) -> &str {
        let found = self.captured.iter().find(|(known, _)| *known == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    /// The project the caller asks for. Known to be there below `/v1`.
    pub(super) fn project(&self) -> &str {
        self.caller.project.as_deref().unwrap_or_default()
    }

    /// The user who asks.
    pub(super) fn user(&self) -> &str {
        self.caller.user.as_deref().unwrap_or_default()
    }

    /// Whose plans and placements the caller sees.
    pub(super) fn scope(&self) -> Scope<'_> {
        Scope { project: self.project(), all: self.sees_all }
    }

    /// The project whose things the caller sees; `None`: those of all.
    pub(super) fn only_project(&self) -> Option<&str> {
        self.scope().only_project()
    }

    /// What plans are made with.
    pub(super) fn planning(&self) -> Planning {
        let app = &self.app;
        let settings = &app.options.planner;
        Planning {
            store: app.store.clone(),
            solver_turns: app.plan_turns.clone(),
            read_turns: app.read_turns.clone(),
            watch: app.watch.clone(),
            turn_wait: settings.turn_wait,
            host_names: settings.host_names,
            caps: settings.caps,
        }
    }

    /// The plan with a key, if the caller sees it.
    pub(super) fn plan<'k>(&'k self, key: &'k str) -> PlanRef<'k> {
        PlanRef { key, scope: self.scope() }
    }

    /// Whose turns the request takes.
    pub(super) fn asker(&self) -> Asker {
        Asker::of(&self.caller)
    }

    /// A variable part of the path as it is compared.
    pub(super) fn key(&self, name: &str) -> String {
        canonical(self.part(name))
    }

    /// Whether the query says yes to something.
    fn flag(&self, name: &str) -> Result<bool, Problem> {
        let said = self.query.iter().rev().find(|(known, _)| known == name);
        match said.map(|(_, value)| value.to_ascii_lowercase()).as_deref() {
            None | Some("false" | "0" | "no") => Ok(false),
            Some("" | "true" | "1" | "yes") => Ok(true),
            Some(other) => {
                Err(Problem::bad_request(format!("{name} must be true or false, not {other}")))
            }
        }
    }

    /// Refuses to try out what can only be done.
    pub(super) fn no_dry_run(&self) -> Result<(), Problem> {
        if self.flag(DRY_RUN)? {
            return Err(Problem::bad_request("dry_run is for creating and updating plans"));
        }
        Ok(())
    }

    /// Whether nothing is to be written.
    pub(super) fn is_dry_run(&self) -> Result<bool, Problem> {
        self.flag(DRY_RUN)
    }

    /// Turns away who does not ask for a project.
    pub(super) fn need_project(&self) -> Result<(), Problem> {
        if self.project().is_empty() { Err(Problem::unauthorized()) } else { Ok(()) }
    }

    /// Turns away whom none of the rules lets pass. What a caller may do is judged by its own
    /// project; whether it sees those of others is one rule for all of it.
    pub(super) fn permit<'r>(
        &self,
        rules: impl IntoIterator<Item = &'r Rule>,
    ) -> Result<(), Problem> {
        let mut rules = rules.into_iter();
        let may = rules.any(|rule| self.app.policy.check(&self.caller, *rule, None).is_ok());
        if may { Ok(()) } else { Err(Problem::unauthorized()) }
    }
}

/// The names and values of a query string, in their order.
pub(super) fn query(raw: &str) -> Result<Vec<(String, String)>, Problem> {
    let pairs = raw.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name)?, decode(value)?))
        })
        .collect()
}

fn decode(text: &str) -> Result<String, Problem> {
    let text = text.replace('+', " ");
    let decoded = percent_decode_str(&text).decode_utf8();
    let decoded =
        decoded.map_err(|error| Problem::bad_request(format!("Invalid query string: {error}")))?;
    if decoded.contains('\0') {
        return Err(Problem::bad_request("Invalid query string: a NUL character is not allowed"));
    }
    Ok(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::query;

    #[test]
    fn a_query_is_names_and_values() {
        let pairs = |raw| {
            let pairs = query(raw).unwrap();
            pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        assert_eq!(pairs(""), [""; 0]);
        assert_eq!(pairs("a=b&&c"), ["a=b", "c="]);
        assert_eq!(pairs("a+b=%5B1%2C+2%5D&a+b=x=y"), ["a b=[1, 2]", "a b=x=y"]);
        assert!(query("a=%00").is_err());
        assert!(query("%ff=1").is_err());
    }
}
