// Entitlements of one tenant with any number of patterns of realistic forms. A few match the tool of the benchmarks; the
// others do not match.
import { TENANT } from '../gateway/issuer.js'
import { SERVER } from '../gateway/requests.js'

const limits = { calls_per_day: 1e9, rate_per_sec: 1e6, burst: 1e6 }

/** `count` patterns: half of them allow, a quarter denies, a quarter limits. */
export function entitlementsOf(count: number): Record<string, unknown> {
  const others = Array.from({ length: Math.max(0, count - 4) }, (_, i) => pattern(i))
  const allowlist = [`${SERVER}/*`, `${SERVER}/list-*`, ...others.filter((_, i) => i % 4 < 2)]
  const denylist = [`${SERVER}/delete-*`, ...others.filter((_, i) => i % 4 === 2)]
  const limited = [`${SERVER}/list-invoices-*`, ...others.filter((_, i) => i % 4 === 3)]
  return {
    default_plan: 'standard',
    plans: { standard: { ...limits, allowlist: [`${SERVER}/*`] } },
    tenants: {
      [TENANT]: {
        plan: 'standard',
        allowlist,
        denylist,
        per_tool: Object.fromEntries(limited.map((pattern) => [pattern, limits])),
      },
    },
  }
}

function pattern(i: number): string {
  // Seven shapes over four lists: each list has each shape.
  switch (i % 7) {
    case 0:
      return `crm/team-${i}-*`
    case 1:
      return `${SERVER}/report-${i}`
    case 2:
      return `${SERVER}/list-*-of-${i}`
    case 3:
      return `*/export-${i}-*`
    case 4:
      return `${SERVER}/list-drafts-${i}@1.*`
    case 5:
      return `archive-${i}@2.0.0`
    default:
      return `mcp://${SERVER}/prompts/letter-${i}@*`
  }
}
