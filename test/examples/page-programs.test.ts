// Compiles every TypeScript block of the pages, and parses every JSON block.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { expect } from 'chai'
import { blocks, nameOf, root } from '../support/pages.js'

const example = '../../../examples/custom-stage/dist/change-freeze.js'

const options = `
  import type { GatewayOptions } from 'svc-sdk/gateway'
  declare const options: GatewayOptions`
const call = `
  import type { Call, Next, Outcome, PluginContext } from 'svc-sdk/core'
  declare const call: Call
  declare const next: Next
  declare const id: string
  declare const url: string`
const changeFreeze = `
  import { type Call, definePlugin, type Finding, type Next, type Outcome, resolve, tokens } from 'svc-sdk/core'
  import { z } from 'zod'`
const ownership = "import { owned, token, tokens } from 'svc-sdk/core'"
const wrapped = `
  import { createPipeline, governed, isGovernanceError } from 'svc-sdk'
  declare const pipeline: ReturnType<typeof createPipeline>
  declare const run: (args: { a: number; b: number }) => number
  type Run = (args: { a: number; b: number }) => Promise<number>
  declare function tool(run: Run, about: object): unknown
  declare function tool(about: { execute: Run; errorFunction: (run: unknown, error: unknown) => string; [key: string]: unknown }): unknown
  declare const createTool: (tool: { id: string; description: string; inputSchema: object;
    execute: (call: { context: { a: number; b: number } }) => Promise<number> }) => unknown
  declare const description: string
  declare const schema: object`

/** What stands before and after a block that is a part of a program, by the page and its first line. */
const parts: Readonly<Record<string, readonly [before: string, after?: string]>> = {
  "docs/ap2.md: import { bind } from 'svc-sdk/core'": [
    `${options}
     declare const ExampleMethod: new () => { resolve: (did: string) => Promise<never[]> }`,
  ],
  "docs/brokers.md: import { bind, credentialSource } from 'svc-sdk/core'": [
    `${options}
     declare const vault: { read: (path: string, options: { signal: AbortSignal }) => Promise<string> }`,
  ],
  "docs/runtime.md: import { bind, tokens } from 'svc-sdk/core'": [
    `${options}
     declare const engine: { permits: (call: object, options: { signal: AbortSignal }) => Promise<boolean> }`,
  ],
  "docs/privacy.md: import { redactor } from 'svc-sdk/core'": [
    `${call}
     declare const span: { setAttribute: (name: string, value: string) => void }
     declare const user: string
     declare const note: string`,
  ],
  "docs/in-process.md: const divide = governed(pipeline, { server: 'calc', name: 'divide' }, run)": [wrapped],
  'docs/in-process.md: await app.register(async (scope) => {': [
    `import type { IncomingMessage, ServerResponse } from 'node:http'
     import type { mountGateway } from 'svc-sdk/node'
     declare const gateway: ReturnType<typeof mountGateway>
     interface Scope {
       removeAllContentTypeParsers: () => void
       addContentTypeParser: (type: string, parse: (request: unknown, payload: unknown, done: (error: null) => void) => void) => void
       all: (path: string, handle: (request: { raw: IncomingMessage }, reply: { hijack: () => void; raw: ServerResponse }) => void) => void
     }
     declare const app: { register: (plugin: (scope: Scope) => Promise<void>) => Promise<void> }`,
  ],
  'docs/writing-a-stage.md: async handle(call: Call, next: Next): Promise<Outcome> {': [
    `${changeFreeze}
     class Part {
       #isOn(): boolean { return true }
       #judge(_readings: Awaited<ReturnType<Call['request']>>['readings']): Finding | undefined { return undefined }`,
    '}',
  ],
  'docs/writing-a-stage.md: export default definePlugin({': [
    `${changeFreeze}
     declare const schema: z.ZodType<object>
     declare const ChangeFreeze: new (config: object, clock: object) => { handle: (call: Call, next: Next) => Promise<Outcome> }`,
  ],
  'docs/writing-a-stage.md: const outcome = await next()': [`${call}\nasync function handle() {`, '}'],
  "docs/writing-a-stage.md: import { identity } from 'svc-sdk/core'": [call],
  'docs/writing-a-stage.md: call.hold({': [
    `${call}
     class Part {
       #tickets = { spend: async (_id: string) => undefined, giveBack: async (_id: string) => {} }
       take() {`,
    '}}',
  ],
  'docs/writing-a-stage.md: call.onSettle(({ status, sent, bytes, error }) => this.#health.note(status, error))':
    [
      `${call}
     class Part {
       #health = { note: (_status: number, _error?: unknown) => {} }
       watch() {`,
      '}}',
    ],
  'docs/writing-a-stage.md: this.#lease = context.resources.acquire(`tickets:${url}`, () => openTickets(url))':
    [
      `${call}
     declare const context: PluginContext
     declare function openTickets(url: string): { value: object; close: () => Promise<void> }
     class Part {
       #lease: object = {}
       start() {`,
      '}}',
    ],
  "docs/writing-a-stage.md: import { conformance, FakeClock, fakeCall } from 'svc-sdk/testing'": [
    '// the example',
  ],
  "docs/writing-a-stage.md: import { bind, tokens } from 'svc-sdk/core'": [
    `${options}
     import type { QuotaAdapter, Signer } from 'svc-sdk/core'
     declare const key: string
     declare function remoteSigner(key: string): Signer
     declare const CountingQuotas: new () => QuotaAdapter`,
  ],
  "docs/writing-a-stage.md: export const freeze = token<{ until: Date }>('change_freeze/Freeze')": [
    `${ownership}\ninterface Config { readonly until: Date }`,
  ],
  "docs/writing-a-stage.md: const owns = [{ token: tokens.QuotaAdapter, selectedBy: [['adapter'], ['redisUrl'], ['dir']] }]":
    [ownership],
  'plugins/authn/README.md: bind(container, jwksSource, { useValue: { load: async (uri, signal) => readKeySetFromTheMesh(uri, signal) } })':
    [
      `import { bind, jwksSource } from 'svc-sdk/core'
       declare const container: Parameters<typeof bind>[0]
       declare function readKeySetFromTheMesh(uri: string, signal: AbortSignal): Promise<object>`,
    ],
}

describe('the programs of the pages', function () {
  this.timeout(60_000)

  it('compile', () => {
    const directory = mkdtempSync(join(root, 'test', 'dist', 'pages-'))
    try {
      const names = blocks.flatMap((block, index) => {
        const { page, language, text } = block
        if (language !== 'ts') return []
        const [before = '', after = ''] = parts[nameOf(block)] ?? []
        const name = `${page.replaceAll(/\W/g, '-')}-${index}.ts`
        writeFileSync(join(directory, name), `${before}\n${text}\n${after}\nexport {}\n`)
        return [nameOf(block)]
      })
      // A test that a page shows imports this module of the example.
      writeFileSync(join(directory, 'change-freeze.ts'), `export { default } from '${example}'\n`)
      expect(messagesOfCompiler(directory)).to.equal('')
      expect(Object.keys(parts).filter((name) => !names.includes(name))).to.deep.equal([])
    } finally {
      rmSync(directory, { recursive: true })
    }
  })

  it('are JSON if they say so', () => {
    const wrong = blocks.filter(({ language, text }) => language === 'json' && !isJson(text))
    expect(wrong.map(nameOf)).to.deep.equal([])
  })
})

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function messagesOfCompiler(directory: string): string {
  const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc')
  writeFileSync(
    join(directory, 'tsconfig.json'),
    JSON.stringify({
      extends: '../../../tsconfig.base.json',
      compilerOptions: { noEmit: true, composite: false, declaration: false, types: ['node', 'mocha'] },
      include: ['*.ts'],
    }),
  )
  try {
    return execFileSync(process.execPath, [tsc, '-p', directory], { encoding: 'utf8', cwd: directory })
  } catch (error) {
    return (error as { stdout: string }).stdout
  }
}
