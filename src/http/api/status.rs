//! Names and explanations of statuses in the reference's framework. Clients read these texts.

use axum::http::StatusCode;

/// Returns the name of a status.
pub(in crate::http) fn title(status: StatusCode) -> &'static str {
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => "Request Entity Too Large",
        StatusCode::URI_TOO_LONG => "Request-URI Too Long",
        other => other.canonical_reason().unwrap_or("Error"),
    }
}

/// Returns the explanation of a status; empty if it has none.
pub(in crate::http) fn explanation(status: StatusCode) -> &'static str {
    match status {
        StatusCode::BAD_REQUEST => {
            "The server could not comply with the request since it is either malformed or otherwise \
             incorrect."
        }
        StatusCode::UNAUTHORIZED => {
            "This server could not verify that you are authorized to access the document you \
             requested. Either you supplied the wrong credentials (e.g., bad password), or your \
             browser does not understand how to supply the credentials required."
        }
        StatusCode::FORBIDDEN => "Access was denied to this resource.",
        StatusCode::NOT_FOUND => "The resource could not be found.",
        StatusCode::REQUEST_TIMEOUT => {
            "The server has waited too long for the request to be sent by the client."
        }
        StatusCode::CONFLICT => "There was a conflict when trying to complete your request.",
        StatusCode::PAYLOAD_TOO_LARGE => "The body of your request was too large for this server.",
        StatusCode::URI_TOO_LONG => "The request URI was too long for this server.",
        StatusCode::TOO_MANY_REQUESTS => "Too many requests are under way. Please try again later.",
        StatusCode::INTERNAL_SERVER_ERROR => {
            "The server has either erred or is incapable of performing the requested operation."
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            "The server is currently unavailable. Please try again at a later time."
        }
        _ => "",
    }
}
