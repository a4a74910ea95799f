// `svc stdio` as the clients of the MCP SDK start it, in a directory with a key and a policy of the test's.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { generateKeyFile, type SignedEnvelope } from '@svc/plugin-audit/log'
import { type StdioGatewayOptions, serveStdio } from 'svc-sdk/internal/stdio/gateway/serve'
import { keepingLogger } from './logger.js'
import { until } from './stdio-target.js'
import { svc } from './svc.js'

type ClientOptions = ConstructorParameters<typeof Client>[1]

export interface Connected extends AsyncDisposable {
  readonly client: Client
  readonly transport: StdioClientTransport
}

export class StdioGateway implements Disposable {
  readonly home = mkdtempSync(join(tmpdir(), 'svc-stdio-'))
  readonly policy = join(this.home, 'policy.yaml')
  /** Log lines of every process. */
  readonly log = join(this.home, 'log')

  /** `sections`: the policy but for tenant, audit and quotas, in YAML. */
  constructor(sections: string) {
    generateKeyFile(join(this.home, 'key'))
    writeFileSync(
      this.policy,
      `tenant: acme
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: file://key } }
quotas: { adapter: memory }
${sections}`,
    )
  }

  /** What a client's configuration has as command and arguments; `args` come after `--policy FILE --log FILE`. */
  command(args: readonly string[]): { command: string; args: string[] } {
    return {
      command: process.execPath,
      args: [svc, 'stdio', '--policy', this.policy, '--log', this.log, ...args],
    }
  }

  async connect(
    args: readonly string[],
    { env = {}, ...options }: ClientOptions & { readonly env?: Record<string, string> } = {},
  ): Promise<Connected> {
    const variables = { PATH: process.env['PATH'] ?? '', HOME: this.home, ...env }
    const transport = new StdioClientTransport({ ...this.command(args), env: variables, stderr: 'inherit' })
    const client = new Client({ name: 'test', version: '1.0.0' }, options)
    await client.connect(transport)
    return { client, transport, [Symbol.asyncDispose]: () => client.close() }
  }

  /** The gateway in this process, for tests that are not about the command and its process. */
  async serve(
    served: Partial<Pick<StdioGatewayOptions, 'command' | 'name' | 'cwd'>>,
    options: ClientOptions = {},
  ): Promise<{ readonly client: Client } & AsyncDisposable> {
    const [input, output] = [new PassThrough(), new PassThrough()]
    const server = await serveStdio({
      policy: { policyFile: this.policy },
      command: undefined,
      name: undefined,
      ...served,
      input,
      output,
      logger: keepingLogger(),
      credentials: () => {
        throw new Error('the policy of this test has no issuer')
      },
    })
    const client = new Client({ name: 'test', version: '1.0.0' }, options)
    await client.connect(new StdioServerTransport(output, input))
    return {
      client,
      async [Symbol.asyncDispose]() {
        input.end()
        await server.ended
        await server.close()
        await client.close()
      },
    }
  }

  records(): SignedEnvelope[] {
    const dir = join(this.home, '.svc', 'audit')
    return linesOf(
      ...readdirSync(dir).flatMap((name) => (/^audit-.*\.ndjson$/.test(name) ? join(dir, name) : [])),
    ) as unknown as SignedEnvelope[]
  }

  /** A member of the first log line that has it. */
  async logged(member: string): Promise<string> {
    const find = () => linesOf(this.log).find((line) => line[member] !== undefined)
    await until(() => find() !== undefined)
    return String(find()?.[member])
  }

  [Symbol.dispose](): void {
    rmSync(this.home, { recursive: true, force: true })
  }
}

function linesOf(...files: string[]): Record<string, unknown>[] {
  return files
    .flatMap((file) => readFileSync(file, 'utf8').split('\n').filter(Boolean))
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}
