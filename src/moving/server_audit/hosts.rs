//! Judging providers of hosts: whether nova has a compute node for each, and each compute node one.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::classify::Audit;
use super::cloud::Node;
use super::finding::{Finding, Remedy, Target};
use super::kind::Kind;
use super::placement::Provider;

impl Audit<'_> {
    /// The roots that nova has no compute node of. Whether they are hosts their inventories say.
    pub fn unowned_roots(&self) -> Vec<Uuid> {
        let Some(database) = self.database() else { return Vec::new() };
        let is_owned = |uuid: &Uuid| database.nodes.get(uuid).is_some_and(|node| !node.deleted);
        let roots = self.placement.roots().into_iter();
        roots.filter(|root| !root.shares && !is_owned(&root.uuid)).map(|root| root.uuid).collect()
    }

    /// What is wrong with providers of hosts, and with compute nodes. `hosts` are those of
    /// [`unowned_roots`](Self::unowned_roots) that look like hosts.
    pub(super) fn providers(&self, hosts: &HashSet<Uuid>) -> Vec<Finding> {
        let Some(database) = self.database() else { return Vec::new() };
        let living: HashMap<&str, Uuid> = database
            .nodes
            .iter()
            .filter(|(_, node)| !node.deleted)
            .map(|(uuid, node)| (node.name.as_str(), *uuid))
            .collect();
        let mut replaced = HashSet::new();
        let mut findings = Vec::new();
        for root in self.unowned_roots() {
            let Some(provider) = self.placement.providers.get(&root) else { continue };
            let node = database.nodes.get(&root);
            if let Some(new) = living.get(provider.name.as_str()) {
                replaced.insert(*new);
                findings.push(of_replaced_node(provider, new));
            } else if node.is_some() || hosts.contains(&root) {
                findings.push(self.without_node(provider, node));
            }
        }
        let mut nodes: Vec<(&Uuid, &Node)> = database.nodes.iter().collect();
        nodes.sort_unstable_by_key(|(uuid, _)| **uuid);
        for (uuid, node) in nodes {
            if node.deleted || self.is_new(node.created) {
                continue;
            }
            if !self.placement.providers.contains_key(uuid) {
                if !replaced.contains(uuid) {
                    findings.push(without_provider(*uuid, node));
                }
            } else if !node.has_service {
                findings.push(without_service(*uuid, node));
            }
        }
        findings
    }

    fn without_node(&self, provider: &Provider, node: Option<&Node>) -> Finding {
        let Provider { uuid, name, generation, .. } = provider;
        let was_deleted = node.is_some();
        let mut evidence = format!("provider {name}");
        if was_deleted {
            evidence.push_str("; nova has deleted its compute node");
        }
        let is_empty = self.placement.is_empty_leaf(uuid);
        evidence.push_str(if is_empty { "; nothing is allocated there" } else { "; it is in use" });
        let remedy = if is_empty && was_deleted && self.deletes_providers() {
            Remedy::Delete(Target { provider: *uuid, name: name.clone(), generation: *generation })
        } else {
            Remedy::Person(format!(
                "either the host comes back (start nova-compute on it), or it is gone: heal what is \
                 allocated there, and delete the provider (openstack resource provider delete {uuid})"
            ))
        };
        Finding { kind: Kind::ProviderWithoutNode, subject: *uuid, evidence, remedy }
    }
}

fn of_replaced_node(provider: &Provider, new: &Uuid) -> Finding {
    let Provider { uuid, name, .. } = provider;
    let remedy = Remedy::Person(format!(
        "either the compute node gets its old UUID back (compute_id of nova-compute, from Antelope on), or \
         the old provider is emptied and deleted (openstack resource provider delete {uuid}), and \
         nova-compute makes a new one"
    ));
    let evidence = format!("provider {name}; nova's compute node of that name is {new}");
    Finding { kind: Kind::ProviderOfReplacedNode, subject: *uuid, evidence, remedy }
}

fn without_provider(uuid: Uuid, node: &Node) -> Finding {
    let Node { host, name, .. } = node;
    let question =
        format!("either start nova-compute on {host}, or delete its service if the host is gone");
    let evidence = format!("compute node {name} on {host}");
    let remedy = Remedy::Person(question);
    Finding { kind: Kind::NodeWithoutProvider, subject: uuid, evidence, remedy }
}

fn without_service(uuid: Uuid, node: &Node) -> Finding {
    let Node { host, name, .. } = node;
    let question = format!(
        "either start nova-compute on {host}, which registers it again, or the host is gone: empty its \
         provider and delete it (openstack resource provider delete {uuid})"
    );
    let evidence = format!("compute node {name} on {host}");
    let remedy = Remedy::Person(question);
    Finding { kind: Kind::NodeWithoutService, subject: uuid, evidence, remedy }
}
