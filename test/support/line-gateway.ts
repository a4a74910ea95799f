// `svc stdio` in this process: its client is one of the SDK, whose transport is the bridge.
import { join } from 'node:path'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { bind, tokens } from '@svc/core'
import type { GatewaySettings } from 'svc-sdk'
import { GatewayBuilder } from 'svc-sdk/internal/gateway/builder'
import { Bridge } from 'svc-sdk/internal/stdio/gateway/bridge'
import { LineGateway } from 'svc-sdk/internal/stdio/gateway/serve'
import { recordingTo } from './gateway.js'
import { keepingLogger } from './logger.js'
import { TemporaryDir } from './temporary-dir.js'

export interface TestLineGateway extends AsyncDisposable {
  readonly adminUrl: string
  readonly records: readonly Record<string, unknown>[]
  connect(client: { connect(transport: Transport): Promise<void> }): Promise<void>
  /** A client that is written by hand; returns what sends its lines. */
  lines(write: (line: string) => void): (line: string) => void
  close(): Promise<void>
}

/** Unauthenticated calls and every tool are allowed unless `settings` say otherwise. `name` as of `LineGateway`. */
export async function startLineGateway(
  settings: Pick<GatewaySettings, 'targets'> & object,
  name?: string,
): Promise<TestLineGateway> {
  const records: Record<string, unknown>[] = []
  const { audit, configure } = recordingTo({
    append: async (envelope) => void records.push(envelope as Record<string, unknown>),
  })
  const folder = new TemporaryDir()
  const gateway = new LineGateway(
    new GatewayBuilder({
      port: 0,
      tenant: 'acme',
      sec0Dir: join(folder.path, 'state'),
      quotas: { adapter: 'memory' },
      authn: { allowUnauthenticated: true },
      entitlements: 'open',
      ...settings,
      audit,
      configure(container) {
        configure(container)
        bind(container, tokens.Logger, { useValue: keepingLogger() })
      },
    }),
    name,
  )
  const { adminUrl = '' } = await gateway.ready()
  const bridges: Bridge[] = []
  const lines: TestLineGateway['lines'] = (write) => {
    const bridge = new Bridge({
      logger: keepingLogger(),
      send: (exchange, method) => gateway.send(exchange, method),
      write: async (line) => write(line),
    })
    bridges.push(bridge)
    return (line) => bridge.receive(line)
  }
  return {
    lines,
    adminUrl,
    records,
    async connect(client) {
      const transport: Transport = {
        start: async () => undefined,
        send: async (message) => send(JSON.stringify(message)),
        close: async () => undefined,
      }
      const send = lines((line) => transport.onmessage?.(JSON.parse(line)))
      await client.connect(transport)
    },
    close: () => gateway.close(),
    async [Symbol.asyncDispose]() {
      for (const bridge of bridges) await bridge.close()
      await gateway.close()
      folder[Symbol.dispose]()
    },
  }
}
