// Every way to a policy judges it alike, whatever the modules of its `plugins` own.
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { bind, type Logger, tokens } from '@svc/core'
import { formatDiagnostic, PolicyError } from '@svc/core/policy'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { createPipeline, startGatewayServer } from 'svc-sdk'
import { doctorCommand } from 'svc-sdk/internal/cli/doctor'
import { serveStdio } from 'svc-sdk/internal/stdio/gateway/serve'
import { governServer } from 'svc-sdk/mcp'
import { mountGateway } from 'svc-sdk/node'
import type { DependencyContainer } from 'tsyringe'
import { keepingLogger } from '../../support/logger.js'
import { pairwise } from '../../support/pairwise.js'
import { runPolicy } from '../../support/policy-command.js'

/** Modules by what they do with sections; the section of each, and a key that only the module knows. */
const modules = {
  adds: { section: 'freeze', key: 'from', module: plugin('freeze', 'from: z.string()') },
  replacesOptional: { section: 'dedupe', key: 'table', module: plugin('dedupe', 'table: z.string()') },
  replacesAlways: {
    section: 'runtime',
    key: 'model',
    module: plugin('runtime', 'model: z.string()', "phase: 'evaluation'"),
  },
  replacesRequired: {
    section: 'quotas',
    key: 'bucket',
    module: plugin('quotas', 'bucket: z.string()', "phase: 'metering'"),
  },
  wraps: {
    section: 'quotas',
    key: 'bucket',
    module: `import { quotasPlugin } from '@svc/plugin-quotas'
export default { ...quotasPlugin, version: '2.0.0', schema: z.strictObject({ bucket: z.string(), adapter: z.literal('memory').default('memory') })
  .transform(({ adapter }) => quotasPlugin.schema.parse({ adapter })) }`,
  },
}

function plugin(name: string, keys: string, more = "phase: 'inspection'"): string {
  return `export default { name: '${name}', version: '1.0.0', core: '^1.0.0', ${more},
  schema: z.strictObject({ ${keys} }), create: () => ({ handle: (_call, next) => next() }) }`
}

const contents = [
  'right',
  'wrong key',
  'wrong value',
  'absent',
  'no module',
  'other mistake',
  'other section',
] as const

type Content = (typeof contents)[number]

type Kind = keyof typeof modules
const kinds = Object.keys(modules) as Kind[]
const others = [
  'explain',
  'schema',
  'doctor',
  'gateway',
  'mounted',
  'pipeline',
  'server',
  'stdio',
  'reload',
] as const
const rows = pairwise(kinds, contents, others)

describe('a policy that names a module', () => {
  const home = mkdtempSync(join(tmpdir(), 'svc-modules-'))
  const file = join(home, 'policy.yaml')

  before(() => {
    symlinkSync(
      fileURLToPath(new URL('../../../../node_modules', import.meta.url)),
      join(home, 'node_modules'),
    )
    mkdirSync(join(home, 'modules'))
    generateKeyFile(join(home, 'audit.key'))
    for (const [kind, { module }] of Object.entries(modules))
      writeFileSync(join(home, 'modules', `${kind}.mjs`), `import { z } from 'zod'\n${module}\n`)
  })

  after(() => rmSync(home, { recursive: true }))

  for (const [kind, content] of pairwise(kinds, contents)) {
    it(`is judged alike everywhere: the module ${kind}, ${content}`, async () => {
      const text = policyOf(kind, content)
      writeFileSync(file, text)
      const expected = await ways.check(text)
      for (const [, , way] of rows.filter((row) => row[0] === kind && row[1] === content))
        expect(await ways[way](text), way).to.equal(expected)
      expect(expected === 'accepted').to.equal(isAccepted(kind, content), String(expected))
    })
  }

  /** Policies are JSON here, which YAML includes. */
  function policyOf(kind: Kind, content: Content): string {
    const { section, key } = modules[kind]
    const values = {
      right: { [key]: 'x' },
      'wrong key': { [key]: 'x', bukcet: 1 },
      'wrong value': { [key]: 7 },
      absent: undefined,
      'no module': { [key]: 'x' },
      'other mistake': { [key]: 'x' },
      'other section': { [key]: 'x' },
    }
    return JSON.stringify(
      {
        tenant: 'acme',
        port: 0,
        ...(content === 'other mistake' ? { server: { host: 7 } } : {}),
        targets: {},
        audit: {
          gatewayName: 'edge',
          gatewayVersion: '1',
          minFreeMb: 0,
          signer: { keyRef: 'file://audit.key' },
        },
        authn: { allowUnauthenticated: true },
        entitlements: 'open',
        quotas: { adapter: 'memory' },
        ...(content === 'other section' ? { privacy: { redact: true } } : {}),
        plugins: [{ use: `./modules/${content === 'no module' ? 'none' : kind}.mjs` }],
        [section]: values[content],
      },
      null,
      2,
    )
  }

  function isAccepted(kind: Kind, content: Content): boolean {
    const isRequired = modules[kind].section === 'quotas'
    return content === 'right' || (content === 'absent' && !isRequired)
  }

  const options = { policyFile: file, configure: silent }

  /** `accepted`, or the mistakes. */
  const ways: Readonly<Record<'check' | (typeof others)[number], (text: string) => Promise<string>>> = {
    check: () => command('check', file),
    explain: () => command('explain', file, '--tenant', 'acme', '--server', 's', '--tool', 't'),
    schema: () => command('schema', file),
    doctor: async () => {
      const out: string[] = []
      const io = {
        out: async (text: string) => void out.push(text),
        err: () => undefined,
        exit: () => undefined,
      }
      await doctorCommand(io, {}).parseAsync([file, '--json'], { from: 'user' })
      const { checks } = JSON.parse(out.join('')) as {
        checks: { section: string; severity: string; message: string }[]
      }
      return verdict(
        checks.flatMap((one) => (one.section === 'policy' && one.severity === 'error' ? [one.message] : [])),
      )
    },
    gateway: (policyYaml) => start(() => startGatewayServer({ ...options, policyYaml })),
    mounted: (policyYaml) => start(() => mountGateway({ ...options, policyYaml })),
    pipeline: (policyYaml) => start(() => createPipeline({ ...options, policyYaml })),
    server: (policyYaml) =>
      start(() => governServer(new McpServer({ name: 's', version: '1' }), { ...options, policyYaml })),
    stdio: async (policyYaml) => {
      const input = new PassThrough()
      input.end()
      const parts = {
        command: undefined,
        name: undefined,
        input,
        output: new PassThrough(),
        logger: keepingLogger(),
      }
      return refusal(async () => {
        const gateway = await serveStdio({
          ...parts,
          policy: { policyYaml, policyFile: file },
          credentials: () => expect.fail('no issuer'),
        })
        await gateway.close()
      })
    },
    reload: async (policyYaml) => {
      const pipeline = createPipeline({ ...options, policyYaml: policyOf('adds', 'right') })
      try {
        await pipeline.ready()
        return await refusal(() => pipeline.reload(policyYaml))
      } finally {
        await pipeline.close()
      }
    },
  }

  async function command(...args: string[]): Promise<string> {
    const { lines, exit } = await runPolicy(args)
    return exit === 0 ? 'accepted' : verdict(lines.filter((line) => !line.startsWith('warning')))
  }
})

interface Started {
  ready(): Promise<unknown>
  close(): Promise<void>
}

function start(open: () => Started): Promise<string> {
  return refusal(async () => {
    const started = open()
    try {
      await started.ready()
    } finally {
      await started.close()
    }
  })
}

async function refusal(run: () => Promise<unknown>): Promise<string> {
  try {
    await run()
    return 'accepted'
  } catch (error) {
    if (!(error instanceof PolicyError)) throw error
    return verdict(error.mistakes.map(formatDiagnostic))
  }
}

function verdict(mistakes: readonly string[]): string {
  return mistakes.length === 0 ? 'accepted' : mistakes.join('\n')
}

function silent(container: DependencyContainer): void {
  bind<Logger>(container, tokens.Logger, { useValue: keepingLogger() })
}
