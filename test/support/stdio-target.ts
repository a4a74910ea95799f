// A gateway in front of the scripted server over stdio, and clients of it.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway, type TestGateway } from './gateway.js'

const scripted = fileURLToPath(new URL('./stdio-server.js', import.meta.url))

type Target = Exclude<NonNullable<GatewaySettings['targets']>[string], string>

/** The scripted server in one of its modes. */
export function scriptedTarget(mode = '', over: Partial<Target> = {}): Target {
  return { command: process.execPath, args: [scripted, mode], ...over }
}

export async function withStdio(
  target: Target,
  use: (gateway: TestGateway) => Promise<void>,
  options: Partial<GatewaySettings> = {},
): Promise<void> {
  const gateway = await startTestGateway({ targets: { files: target }, ...options })
  try {
    await use(gateway)
  } finally {
    await gateway[Symbol.asyncDispose]()
  }
}

interface ClientOptions {
  readonly server?: string
  readonly headers?: Record<string, string>
  readonly capabilities?: Record<string, object>
  /** Before the handshake. */
  readonly prepare?: (client: Client) => void
}

/** A client of the SDK, version 1, that has shaken hands with the server of that name. */
export async function connect(
  gateway: Pick<TestGateway, 'url'>,
  { server = 'files', headers = {}, capabilities = {}, prepare = () => undefined }: ClientOptions = {},
): Promise<Client & AsyncDisposable> {
  const client = new Client({ name: 'test', version: '1' }, { capabilities })
  prepare(client)
  const url = new URL(`${gateway.url}/mcp/${server}`)
  const transport = new StreamableHTTPClientTransport(url, { requestInit: { headers } })
  // Its types are not made for `exactOptionalPropertyTypes`.
  await client.connect(transport as Parameters<Client['connect']>[0])
  return Object.assign(client, {
    async [Symbol.asyncDispose]() {
      await transport.terminateSession()
      await client.close()
    },
  })
}

/** The text that a tool answers with. */
export async function say(client: Client, name: string, args: Record<string, unknown> = {}): Promise<string> {
  const { content } = await client.callTool({ name, arguments: args })
  return (content as { text: string }[])[0]?.text ?? ''
}

/** Whether the process runs; a zombie has ended. */
export function isAlive(pid: number): boolean {
  try {
    const status = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return !/\) Z /.test(status)
  } catch {
    return false
  }
}

/** Resolves when `holds` does; the runner's time limit ends a wait in vain. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 10))
}
