//! The caller of a request, as plain data.

use crate::fairness::turns::Requester;

/// A caller, as authentication identified it: ids, not names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The user.
    pub user: Option<String>,
    /// The domain of the user.
    pub user_domain: Option<String>,
    /// The project that the token is for.
    pub project: Option<String>,
    /// The domain of the project.
    pub project_domain: Option<String>,
    /// The domain that the token is for.
    pub domain: Option<String>,
    /// `all` if the token is for the whole system.
    pub system: Option<String>,
    /// The roles, in their original spelling.
    pub roles: Vec<String>,
    /// The service that acts on behalf of the user.
    pub service_user: Option<String>,
    /// The project of that service.
    pub service_project: Option<String>,
    /// The roles of that service, in their original spelling.
    pub service_roles: Vec<String>,
}

/// An attribute of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute<'c> {
    /// One value. A missing value counts as the text `None`.
    One(Option<&'c str>),
    /// Several values, one of which must match.
    Several(&'c [String]),
}

impl Caller {
    /// Returns the project that takes turns at long work, or the user if there is no project.
    pub fn requester(&self) -> Requester {
        Requester::named(self.project.as_deref().or(self.user.as_deref()).unwrap_or_default())
    }

    /// Returns whether the caller has a role; case does not matter.
    pub fn has_role(&self, role: &str) -> bool {
        self.roles.iter().any(|known| same_role(known, role))
    }

    /// Returns the attribute with a name in the policy language; `None` if it does not exist.
    pub fn attribute(&self, name: &str) -> Option<Attribute<'_>> {
        Some(match name {
            "user_id" => Attribute::One(self.user.as_deref()),
            "user_domain_id" => Attribute::One(self.user_domain.as_deref()),
            "project_id" => Attribute::One(self.project.as_deref()),
            "project_domain_id" => Attribute::One(self.project_domain.as_deref()),
            "domain_id" => Attribute::One(self.domain.as_deref()),
            "system_scope" => Attribute::One(self.system.as_deref()),
            "system" if self.system.is_some() => Attribute::One(self.system.as_deref()),
            "roles" => Attribute::Several(&self.roles),
            "is_admin_project" => Attribute::One(Some("True")),
            "service_user_id" => Attribute::One(self.service_user.as_deref()),
            "service_project_id" => Attribute::One(self.service_project.as_deref()),
            "service_roles" => Attribute::Several(&self.service_roles),
            "service_user_domain_id" | "service_project_domain_id" => Attribute::One(None),
            _ => return None,
        })
    }
}

/// Returns whether two names are the same role; case does not matter.
fn same_role(one: &str, other: &str) -> bool {
    if one.is_ascii() && other.is_ascii() {
        one.eq_ignore_ascii_case(other)
    } else {
        one.to_lowercase() == other.to_lowercase()
    }
}
