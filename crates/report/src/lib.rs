//! Static HTML pages and SVG charts, for the server, the profiler and the command line.
//!
//! [`html`] has the frame of a page and its tables. [`chart`] writes the shapes of one SVG chart, and [`line_chart`] uses it
//! to draw curves over steps. Nothing here runs a script or loads a resource, and every text is escaped.

pub mod chart;
pub mod html;
pub mod line_chart;
