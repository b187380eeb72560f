//! Who may do what: the rules by name, each with its check.
//!
//! The checks stand in a table here. A policy read from a file would fill the same map.

use std::collections::HashMap;

use thiserror::Error;

use super::identity::{Caller, Scope};

/// What a rule asks of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Role `admin` or `service`.
    AdminOrService,
    /// Role `service`; under legacy defaults `admin` too.
    Service,
    /// Role `admin` or `service`, or `reader` of the project that is asked about.
    AdminOrServiceOrProjectReader,
}

/// Something a policy decides on, by the name operators know it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rule(&'static str);

impl Rule {
    /// The name.
    pub fn name(self) -> &'static str {
        self.0
    }
}

macro_rules! rules {
    ($($name:ident = $text:literal, $check:ident;)+) => {
        /// The rules.
        pub mod rule {
            use super::Rule;
            $(
                #[doc = concat!("`", $text, "`")]
                pub const $name: Rule = Rule($text);
            )+
        }

        /// Every rule with the check it has unless an operator says otherwise.
        pub const DEFAULTS: &[(Rule, Check)] = &[$((rule::$name, Check::$check),)+];
    };
}

rules! {
    PROVIDERS_LIST = "placement:resource_providers:list", AdminOrService;
    PROVIDERS_CREATE = "placement:resource_providers:create", AdminOrService;
    PROVIDERS_SHOW = "placement:resource_providers:show", AdminOrService;
    PROVIDERS_UPDATE = "placement:resource_providers:update", AdminOrService;
    PROVIDERS_DELETE = "placement:resource_providers:delete", AdminOrService;
    CLASSES_LIST = "placement:resource_classes:list", AdminOrService;
    CLASSES_CREATE = "placement:resource_classes:create", AdminOrService;
    CLASSES_SHOW = "placement:resource_classes:show", AdminOrService;
    CLASSES_UPDATE = "placement:resource_classes:update", AdminOrService;
    CLASSES_DELETE = "placement:resource_classes:delete", AdminOrService;
    INVENTORIES_LIST = "placement:resource_providers:inventories:list", AdminOrService;
    INVENTORIES_CREATE = "placement:resource_providers:inventories:create", AdminOrService;
    INVENTORIES_SHOW = "placement:resource_providers:inventories:show", AdminOrService;
    INVENTORIES_UPDATE = "placement:resource_providers:inventories:update", AdminOrService;
    INVENTORIES_DELETE = "placement:resource_providers:inventories:delete", AdminOrService;
    AGGREGATES_LIST = "placement:resource_providers:aggregates:list", AdminOrService;
    AGGREGATES_UPDATE = "placement:resource_providers:aggregates:update", AdminOrService;
    PROVIDER_USAGES = "placement:resource_providers:usages", AdminOrService;
    USAGES = "placement:usages", AdminOrServiceOrProjectReader;
    TRAITS_LIST = "placement:traits:list", AdminOrService;
    TRAITS_SHOW = "placement:traits:show", AdminOrService;
    TRAITS_UPDATE = "placement:traits:update", AdminOrService;
    TRAITS_DELETE = "placement:traits:delete", AdminOrService;
    PROVIDER_TRAITS_LIST = "placement:resource_providers:traits:list", AdminOrService;
    PROVIDER_TRAITS_UPDATE = "placement:resource_providers:traits:update", AdminOrService;
    PROVIDER_TRAITS_DELETE = "placement:resource_providers:traits:delete", AdminOrService;
    ALLOCATIONS_MANAGE = "placement:allocations:manage", AdminOrService;
    ALLOCATIONS_LIST = "placement:allocations:list", AdminOrService;
    ALLOCATIONS_UPDATE = "placement:allocations:update", AdminOrService;
    ALLOCATIONS_DELETE = "placement:allocations:delete", AdminOrService;
    PROVIDER_ALLOCATIONS_LIST = "placement:resource_providers:allocations:list", AdminOrService;
    CANDIDATES_LIST = "placement:allocation_candidates:list", AdminOrService;
    RESHAPE = "placement:reshaper:reshape", Service;
}

/// Why a caller may not.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Denied {
    /// The rule says no.
    #[error("Policy does not allow {0} to be performed.")]
    Rule(&'static str),
    /// The token is not for a project.
    #[error("{0}")]
    Scope(&'static str),
}

/// The rules in force.
#[derive(Clone, Debug)]
pub struct Policy {
    checks: HashMap<Rule, Check>,
    legacy_defaults: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Policy {
    /// The default rules; with legacy defaults, `admin` may do what else only `service` may.
    pub fn new(legacy_defaults: bool) -> Self {
        Self { checks: DEFAULTS.iter().copied().collect(), legacy_defaults }
    }

    /// Whether the caller may do what the rule is about. `project` is whose things it is about,
    /// for the rules that care.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, caller: &Caller, rule: Rule, project: Option<&str>) -> Result<(), Denied> {
        if caller.scope == Scope::Other {
            return Err(Denied::Scope(rule.name()));
        }
        let (admin, service) = (caller.has_role("admin"), caller.has_role("service"));
        let own = project.is_some() && project == caller.project.as_deref();
        let passes = match self.checks.get(&rule) {
            Some(Check::AdminOrService) => admin || service,
            Some(Check::Service) => service || admin && self.legacy_defaults,
            Some(Check::AdminOrServiceOrProjectReader) => {
                admin || service || own && caller.has_role("reader")
            }
            None => false,
        };
        if passes { Ok(()) } else { Err(Denied::Rule(rule.name())) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Caller, DEFAULTS, Denied, Policy, Scope, rule};

    fn caller(roles: &[&str]) -> Caller {
        Caller {
            user: Some("u".to_owned()),
            project: Some("p".to_owned()),
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            scope: Scope::Project,
        }
    }

    #[test]
    fn each_rule_asks_for_its_roles() {
        assert_eq!(DEFAULTS.len(), 33);
        for legacy in [false, true] {
            let policy = Policy::new(legacy);
            for (rule, _) in DEFAULTS {
                let may = |roles: &[&str]| policy.check(&caller(roles), *rule, None).is_ok();
                let name = rule.name();
                assert!(may(&["service"]), "{name}");
                assert_eq!(may(&["admin"]), *rule != rule::RESHAPE || legacy, "{name}");
                assert!(!may(&[]) && !may(&["member", "reader"]), "{name}");
            }
        }
    }

    #[test]
    fn a_reader_sees_the_usages_of_its_own_project() {
        let policy = Policy::default();
        let may =
            |roles: &[&str], project| policy.check(&caller(roles), rule::USAGES, project).is_ok();
        assert!(may(&["reader"], Some("p")));
        assert!(!may(&["reader"], Some("q")));
        assert!(!may(&["reader"], None));
        assert!(!may(&["member"], Some("p")));
        assert!(may(&["admin"], Some("q")));
    }

    #[test]
    fn only_tokens_for_a_project_may_anything() {
        let admin = Caller { scope: Scope::Other, ..caller(&["admin", "service"]) };
        let denied = Policy::default().check(&admin, rule::TRAITS_LIST, None);
        assert_eq!(denied, Err(Denied::Scope("placement:traits:list")));
    }
}
