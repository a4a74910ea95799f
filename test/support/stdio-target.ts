// A gateway in front of the scripted server over stdio, and clients of it.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway, type TestGateway } from './gateway.js'
import { type Connecting1, connect1 } from './sdk-clients.js'

const scripted = fileURLToPath(new URL('./scripted-server.js', import.meta.url))

const twoEra = fileURLToPath(new URL('./two-era-server.js', import.meta.url))

type Target = Exclude<NonNullable<GatewaySettings['targets']>[string], string>

/** The scripted server in one of its modes. */
export function scriptedTarget(mode = '', over: Partial<Target> = {}): Target {
  return { command: process.execPath, args: [scripted, mode], ...over }
}

/** A server of SDK 2.x, of both eras or of 2026-07-28 alone. */
export function twoEraTarget(mode: '' | 'stateless' = '', over: Partial<Target> = {}): Target {
  return { command: process.execPath, args: [twoEra, mode], ...over }
}

export async function withStdio(
  target: Target,
  use: (gateway: TestGateway) => Promise<void>,
  options: Partial<GatewaySettings> = {},
): Promise<void> {
  await using gateway = await startTestGateway({ targets: { files: target }, ...options })
  await use(gateway)
}

interface ClientOptions extends Connecting1 {
  /** Empty: all servers as one. */
  readonly server?: string
}

/** A client of the SDK, version 1, that has shaken hands with the server of that name. */
export async function connect(
  gateway: Pick<TestGateway, 'url'>,
  { server = 'files', ...connecting }: ClientOptions = {},
): Promise<Client & AsyncDisposable> {
  const client = await connect1(`${gateway.url}/mcp${server === '' ? '' : `/${server}`}`, connecting)
  return Object.assign(client, {
    async [Symbol.asyncDispose]() {
      const { transport } = client
      if (transport instanceof StreamableHTTPClientTransport) await transport.terminateSession()
      await client.close()
    },
  })
}

/** The text that a tool responds with. */
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
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 10))
}
