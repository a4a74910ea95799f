// A gateway as a process that exports to an OTLP receiver, with an upstream, in a directory of its own.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { Running } from '../../support/gateway-process.js'
import { startUpstream, type TestUpstream } from '../../support/upstream.js'

export class TelemetryRig implements AsyncDisposable {
  readonly home = mkdtempSync(join(tmpdir(), 'svc-test-'))
  readonly upstream: TestUpstream
  /** Targets of the gateway beside the upstream. */
  readonly targets: Record<string, object> = {}
  /** The status and the message with which the upstream responds. */
  response: readonly [status: number, message: object] = [
    200,
    { jsonrpc: '2.0', id: 7, result: { content: [] } },
  ]

  private constructor(upstream: TestUpstream) {
    this.upstream = upstream
    generateKeyFile(join(this.home, 'key'))
  }

  static async start(): Promise<TelemetryRig> {
    const upstream = await startUpstream((_call, response) => {
      const [status, message] = rig.response
      response.writeHead(status, { 'content-type': 'application/json' })
      response.end(JSON.stringify(message))
    })
    const rig = new TelemetryRig(upstream)
    return rig
  }

  /** `endpoint` is empty if the environment names none; `more` are further sections of the policy. */
  gateway(endpoint: string, more = '', env: Record<string, string> = {}): Running {
    const policy = join(this.home, 'policy.yaml')
    const quotas = more.includes('quotas:') ? '' : 'quotas: { adapter: memory }\n'
    writeFileSync(
      policy,
      `tenant: acme
port: 0
targets: ${JSON.stringify({ files: this.upstream.url, ...this.targets })}
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: file://./key } }
entitlements:
  default_plan: free
  plans: { free: { allowlist: ['*/*'], denylist: ['files/erase'], rate_per_sec: 1000 } }
  tenants: {}
authn: { allowUnauthenticated: true }
${quotas}${more}`,
    )
    const soon = {
      OTEL_BSP_SCHEDULE_DELAY: '20',
      OTEL_BLRP_SCHEDULE_DELAY: '20',
      OTEL_METRIC_EXPORT_INTERVAL: '200',
    }
    const asked: Record<string, string> = endpoint === '' ? {} : { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint }
    return new Running(['--policy', policy], { ...soon, ...asked, ...env })
  }

  records(): Record<string, unknown>[] {
    const dir = join(this.home, '.svc', 'audit')
    const [file = ''] = readdirSync(dir).filter((name) => /^audit-.*\.ndjson$/.test(name))
    const lines = readFileSync(join(dir, file), 'utf8').trim().split('\n')
    return lines.map((line) => JSON.parse(line) as Record<string, unknown>)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.upstream[Symbol.asyncDispose]()
    rmSync(this.home, { recursive: true, force: true })
  }
}

/** Calls a tool of the server `files`. */
export function invoke(
  url: string | undefined,
  tool: string,
  headers: Record<string, string> = {},
): Promise<Response> {
  return fetch(`${url}/mcp/files/${tool}@1`, { method: 'POST', body: '{}', headers })
}
