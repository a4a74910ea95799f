// The policy of the benchmarks: every available section, with limits that are counted and not reached.
import { AUDIENCE, TENANT } from './issuer.js'
import { SERVER } from './requests.js'

/** Servers that the policy names and no benchmark calls. */
const OTHERS = ['crm', 'mail', 'ledger']

export interface PolicyParts {
  readonly issuer: string
  readonly upstreamPort: number
  /** Directory of the log. */
  readonly dir: string
  readonly keyFile: string
}

export function policyOf({ issuer, upstreamPort, dir, keyFile }: PolicyParts): Record<string, unknown> {
  return {
    port: 0,
    tenant: TENANT,
    targets: Object.fromEntries(
      [SERVER, ...OTHERS].map((name) => [name, `http://127.0.0.1:${upstreamPort}`]),
    ),
    audit: {
      dir,
      gatewayName: 'bench',
      gatewayVersion: '1.0.0',
      clientName: 'agent',
      environment: 'bench',
      retentionDays: 30,
      signer: { keyRef: `file://${keyFile}` },
      failure_mode: 'block',
    },
    authn: { oidc: { issuer, audience: AUDIENCE, jwks_uri: `${issuer}/jwks` } },
    entitlements: {
      default_plan: 'standard',
      plans: {
        standard: {
          calls_per_day: 1e9,
          rate_per_sec: 1e6,
          burst: 1e6,
          allowlist: ['billing/*', 'crm/read-*'],
        },
      },
      tenants: {
        [TENANT]: {
          plan: 'standard',
          allowlist: ['billing/*', 'crm/*', 'mail/send-*'],
          denylist: ['billing/delete-*', '*/drop-*'],
          per_tool: { 'billing/list-*': { calls_per_day: 1e9, rate_per_sec: 1e6, burst: 1e6 } },
          roles: { finance: { allowlist: ['ledger/*'] } },
        },
      },
    },
    quotas: { adapter: 'memory' },
    security: {
      allow_versions: { [SERVER]: ['1.*', '2.0.0'] },
      limits: { max_payload_kb: 256, max_duration_ms: 10_000 },
    },
    enforcement: { mode: 'enforce' },
  }
}
