/** The page of a call; `id` is that of its row. */
export function callHref(id: string): string {
  return `/console/live/${encodeURIComponent(id.replace(':', '-'))}`
}
