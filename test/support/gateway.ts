// A gateway for one test, with a key, a log in a temporary directory and a free port.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Appender, bind, tokens } from '@svc/core'
import { generateKeyFile, type SignedEnvelope } from '@svc/plugin-audit/log'
import { type GatewayHandle, type GatewaySettings, startGatewayServer } from 'svc-sdk'
import { type KeepingLogger, keepingLogger } from './logger.js'

export interface TestGateway extends AsyncDisposable {
  readonly url: string
  readonly handle: GatewayHandle
  readonly log: KeepingLogger
  /** Directory of the log. */
  readonly dir: string
  /** Every record of the daily logs, in order. */
  records(): SignedEnvelope[]
  /** POSTs a tool call over the invoke protocol. */
  invoke(path: string, args?: unknown, headers?: Record<string, string>): Promise<Response>
}

/** Options whose records go to `appender` in place of a log. */
export function recordingTo(appender: Appender): Required<Pick<GatewaySettings, 'audit' | 'configure'>> {
  return {
    audit: { gatewayName: 'gw', gatewayVersion: '1.0.0' },
    configure: (container) => bind<Appender>(container, tokens.SvcAppender, { useValue: appender }),
  }
}

/** The log of a gateway that has the directory `home` to itself. */
export function auditIn(home: string) {
  const signer = { keyRef: `file://${join(home, 'key')}` }
  return { gatewayName: 'gw', gatewayVersion: '1.0.0', dir: join(home, 'audit'), signer }
}

/**
 * Unauthenticated calls and every tool are allowed, a refused call over MCP is an error with its code, and everything else is at
 * its default, unless `options` say otherwise; a function gets the directory that the gateway has to itself.
 */
export async function startTestGateway(
  given: GatewaySettings | ((home: string) => GatewaySettings),
): Promise<TestGateway> {
  const home = mkdtempSync(join(tmpdir(), 'svc-test-'))
  const dir = join(home, 'audit')
  generateKeyFile(join(home, 'key'))
  const { configure, server, ...rest } = typeof given === 'function' ? given(home) : given
  const log = keepingLogger()
  try {
    const handle = startGatewayServer({
      port: 0,
      tenant: 'acme',
      sec0Dir: join(home, 'state'),
      audit: auditIn(home),
      quotas: { adapter: 'memory' },
      entitlements: 'open',
      authn: { allowUnauthenticated: true },
      // Calls that a test leaves behind end soon.
      server: { drainMs: 1_000, ...server, mcp: { denials: 'error', ...server?.mcp } },
      configure(container) {
        bind(container, tokens.Logger, { useValue: log })
        configure?.(container)
      },
      ...rest,
    })
    const { url } = await handle.ready()
    return {
      url,
      handle,
      log,
      dir,
      records: () => recordsIn(dir),
      invoke: (path, args = {}, headers = {}) =>
        post(url, path, typeof args === 'string' ? args : JSON.stringify(args), headers),
      async [Symbol.asyncDispose]() {
        await handle.close()
        rmSync(home, { recursive: true, force: true })
      },
    }
  } catch (error) {
    rmSync(home, { recursive: true, force: true })
    throw error
  }
}

function recordsIn(dir: string): SignedEnvelope[] {
  return readdirSync(dir)
    .filter((name) => /^audit-.*\.ndjson$/.test(name))
    .sort()
    .flatMap((name) => readFileSync(join(dir, name), 'utf8').split('\n').filter(Boolean))
    .map((line) => JSON.parse(line) as SignedEnvelope)
}

/** Like fetch, but the path goes out as it is written: `..` and its escapes too. */
function post(base: string, path: string, body: string, headers: Record<string, string>): Promise<Response> {
  return new Promise((resolve, reject) => {
    const sending = request(base, {
      method: 'POST',
      path,
      headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body), ...headers },
    })
    sending.once('error', reject)
    sending.once('response', (message) => {
      const pieces: Buffer[] = []
      message.on('data', (piece: Buffer) => pieces.push(piece))
      message.once('error', reject)
      message.once('end', () => {
        const fields = Object.entries(message.headers).map(([name, value]): [string, string] => [
          name,
          String(value),
        ])
        resolve(new Response(Buffer.concat(pieces), { status: message.statusCode ?? 0, headers: fields }))
      })
    })
    sending.end(body)
  })
}
