// The steps of the tour: what the gateway returns to an agent, and what its operator finds in the log. Each step asserts what
// it shows, and returns the lines to print.
import { strict as assert } from 'node:assert'
import { cp, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { Notes } from './protections.js'
import type { SeveralServers } from './several-servers.js'
import { svc } from './svc.js'
import type { ToolServer } from './tool-server.js'

export interface Tour {
  /** An MCP client of the gateway. */
  readonly client: Client
  /** An MCP client of the tool server itself, without the gateway. */
  readonly direct: Client
  readonly gatewayUrl: string
  /** Runs `svc escalations …` in a process of its own, as a reviewer does. */
  escalations(...args: string[]): Promise<{ exit: number; output: string }>
  readonly tools: ToolServer
  readonly severalServers: SeveralServers
  readonly notes: Notes
  readonly auditDir: string
  readonly keyFile: string
  /** Temporary: removed after the tour. */
  readonly directory: string
  stopGateway(): Promise<void>
}

export interface Step {
  readonly title: string
  /** Resolves to lines to print; rejects when the step fails. */
  readonly run: (tour: Tour) => Promise<string[]>
}

/** How many calls the tour makes before it reports that no rate limit applies. */
const maxCalls = 20

export const tour: readonly Step[] = [
  {
    title: 'An MCP client lists the tools: those that it may use, and those that a reviewer can approve.',
    run: async ({ client, direct }) => {
      const offered = await toolNames(direct)
      const listed = await toolNames(client)
      assert.deepEqual(offered, ['delete_customer', 'get_invoice', 'list_invoices', 'refund_payment'])
      assert.deepEqual(listed, ['get_invoice', 'list_invoices', 'refund_payment'])
      return [`the tool server has  ${offered.join(', ')}`, `the client sees      ${listed.join(', ')}`]
    },
  },
  {
    title: 'It calls get_invoice, which the policy allows.',
    run: async ({ client }) => {
      const { structuredContent } = await client.callTool({
        name: 'get_invoice',
        arguments: { invoice: 'INV-1001' },
      })
      assert.deepEqual(structuredContent, {
        id: 'INV-1001',
        customer: 'Harbour Bakery',
        amount_cents: 42_000,
        currency: 'EUR',
        status: 'paid',
      })
      return [JSON.stringify(structuredContent)]
    },
  },
  {
    title: 'It reads a resource and gets a prompt, which the policy also controls.',
    run: async ({ client }) => {
      const { contents } = await client.readResource({ uri: 'billing://refund-rules' })
      const { messages } = await client.getPrompt({
        name: 'explain_invoice',
        arguments: { invoice: 'INV-1001' },
      })
      assert.match(JSON.stringify(contents), /A reviewer approves each refund/)
      assert.match(JSON.stringify(messages), /Look up invoice INV-1001/)
      return ['resource billing://refund-rules, prompt explain_invoice']
    },
  },
  {
    title: 'It calls refund_payment. The call is escalated, and nothing is sent to the tool server.',
    run: async ({ client, tools }) => {
      const refusal = await refusalOf(client.callTool(refund('INV-1001')))
      assert.equal(refusal.error, 'ESCALATION_PENDING')
      assert.equal(refusal.reason, 'tool_not_in_allowlist')
      assert.equal(refusal.sent, false)
      assert.deepEqual(tools.refunds, [])
      return [refusal.text]
    },
  },
  {
    title: 'A reviewer lists the pending escalations and approves it.',
    run: async ({ client, escalations }) => {
      const id = await escalatedIdOf(client, 'INV-1001')
      const listed = await escalations('list')
      assert.equal(listed.exit, 0, listed.output)
      assert.ok(listed.output.includes(id), `${id} is not listed:\n${listed.output}`)
      const approved = await escalations('approve', id, '--comment', 'invoice checked')
      assert.equal(approved.exit, 0, approved.output)
      assert.match(approved.output, /^status +approved by votes/m)
      return [
        '$ npx svc-sdk escalations list',
        listed.output,
        `$ npx svc-sdk escalations approve ${id}`,
        approved.output,
      ]
    },
  },
  {
    title: 'The client repeats the call with the id of the approval, which is valid for one call.',
    run: async ({ client, escalations, tools }) => {
      const id = await idOfOnly(escalations, 'approved')
      const { structuredContent } = await client.callTool(refund('INV-1001', id))
      assert.deepEqual(tools.refunds, ['INV-1001'])
      const refusal = await refusalOf(client.callTool(refund('INV-1001', id)))
      assert.equal(refusal.error, 'ESCALATION_REJECTED')
      assert.deepEqual(tools.refunds, ['INV-1001'])
      return [JSON.stringify(structuredContent), 'a second time:', refusal.text]
    },
  },
  {
    title: 'Another refund waits for the decision with x-escalation-wait, and is rejected.',
    run: async ({ client, gatewayUrl, escalations, tools }) => {
      const id = await escalatedIdOf(client, 'INV-1003')
      const waiting = fetch(`${gatewayUrl}/mcp/billing/refund_payment@1.0.0`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-escalation-wait': '30' },
        body: JSON.stringify(refund('INV-1003').arguments),
      })
      const { exit, output } = await escalations('reject', id, '--comment', 'not our invoice')
      assert.equal(exit, 0, output)
      const refusal = await (await waiting).text()
      assert.match(refusal, /"ESCALATION_REJECTED"/)
      assert.deepEqual(tools.refunds, ['INV-1001'])
      return [refusal.trim()]
    },
  },
  {
    title: 'It calls delete_customer, which is on the allowlist and on the denylist. The denylist wins.',
    run: async ({ client }) => {
      const refusal = await refusalOf(
        client.callTool({ name: 'delete_customer', arguments: { customer: 'Harbour Bakery' } }),
      )
      assert.equal(refusal.error, 'TOOL_NOT_ALLOWED')
      assert.equal(refusal.reason, 'tool_in_denylist')
      return [refusal.text]
    },
  },
  {
    title: 'It calls list_invoices until the rate limit applies.',
    run: async ({ client }) => {
      let served = 0
      while (served < maxCalls) {
        const limited = refusalIn(await client.callTool({ name: 'list_invoices', arguments: {} }))
        if (limited !== undefined) {
          assert.equal(limited.error, 'RATE_LIMITED')
          assert.ok(served >= 3, `the burst is three calls, and only ${served} were served`)
          return [`${served} calls served, then:`, limited.text]
        }
        served++
      }
      throw new Error(`${maxCalls} calls were served, and no limit applied`)
    },
  },
  {
    title: 'It sends more than 16 kB of arguments.',
    run: async ({ client }) => {
      const refusal = await refusalOf(
        client.callTool({ name: 'get_invoice', arguments: { invoice: 'x'.repeat(20_000) } }),
      )
      assert.equal(refusal.error, 'PAYLOAD_TOO_LARGE')
      assert.equal(refusal.sent, false)
      return [refusal.text]
    },
  },
  {
    title: 'The same policy applies to plain HTTP: here, to a version that allow_versions does not allow.',
    run: async ({ gatewayUrl }) => {
      const invoke = (version: string): Promise<Response> =>
        fetch(`${gatewayUrl}/mcp/billing/get_invoice@${version}`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ invoice: 'INV-1003' }),
        })
      const allowed = await invoke('1.0.0')
      assert.equal(allowed.status, 200)
      assert.match(await allowed.text(), /Okafor & Daughters/)
      const refused = await invoke('2.0.0')
      const refusal = await refused.text()
      assert.equal(refused.status, 403)
      assert.match(refusal, /"version_unpinned"/)
      return ['get_invoice@1.0.0  200', `get_invoice@2.0.0  403 ${refusal.trim()}`]
    },
  },
  {
    title: 'The gateway stops. Its log has a record of every call, and every signature is valid.',
    run: async ({ stopGateway, auditDir, keyFile }) => {
      await stopGateway()
      const lines = await Promise.all((await logFiles(auditDir)).map(linesOf))
      const refusedTools = lines
        .flat()
        .filter((line) => /"decision":"deny"/.test(line))
        .map((line) => /"tool":"([a-z_]+)@/.exec(line)?.[1])
      assert.ok(refusedTools.includes('refund_payment'), 'the denied refund has no record')
      const { exit, output } = await svc('audit', 'verify', auditDir, '--keys', keyFile)
      assert.equal(exit, 0, output)
      return [`$ npx svc-sdk audit verify ${auditDir} --keys ${keyFile}`, output]
    },
  },
  {
    title: 'One byte of a copy of that log is changed. The verification reports the line.',
    run: async ({ auditDir, keyFile, directory }) => {
      const copy = join(directory, 'tampered')
      await cp(auditDir, copy, { recursive: true })
      const line = await changeOneByte(await newestLog(copy))
      const { exit, output } = await svc('audit', 'verify', copy, '--keys', keyFile)
      assert.equal(exit, 1, output)
      assert.ok(output.includes(`.ndjson:${line}: bad_signature`), `line ${line} is not named:\n${output}`)
      return [`$ npx svc-sdk audit verify ${copy} --keys ${keyFile}`, output]
    },
  },
]

function refund(invoice: string, escalationId?: string) {
  const more = escalationId === undefined ? {} : { _meta: { 'svc/escalation-id': escalationId } }
  return { name: 'refund_payment', arguments: { invoice, amount: 80, reason: 'charged twice' }, ...more }
}

/** Calls refund_payment and returns the id of the escalation, which stays the same while it is pending. */
async function escalatedIdOf(client: Client, invoice: string): Promise<string> {
  const { escalationId } = await refusalOf(client.callTool(refund(invoice)))
  assert.equal(typeof escalationId, 'string', 'the refund is not escalated')
  return String(escalationId)
}

/** The id of the only escalation with that status. */
async function idOfOnly(escalations: Tour['escalations'], status: string): Promise<string> {
  const { exit, output } = await escalations('list', '--status', status, '--json')
  assert.equal(exit, 0, output)
  const listed = JSON.parse(output) as { escalations: { id: string }[] }
  assert.equal(listed.escalations.length, 1)
  return listed.escalations[0]?.id ?? ''
}

export async function toolNames(client: Client): Promise<string[]> {
  const { tools } = await client.listTools()
  return tools.map(({ name }) => name).sort()
}

interface Refused {
  readonly error: unknown
  readonly reason: unknown
  readonly sent: unknown
  readonly escalationId: unknown
  readonly text: string
}

export async function refusalOf(call: Promise<unknown>): Promise<Refused> {
  const result = await call
  const refused = refusalIn(result)
  if (refused === undefined) throw new Error(`it was served: ${JSON.stringify(result)}`)
  return refused
}

/** A refusal is a result with the error in its `_meta`; undefined for another result. */
function refusalIn(result: unknown): Refused | undefined {
  const { _meta: meta } = result as { readonly _meta?: Record<string, unknown> }
  const error = meta?.['svc/error']
  if (typeof error !== 'object' || error === null) return undefined
  const data: Record<string, unknown> = { ...error }
  return {
    error: data['error'],
    reason: data['denial_reason'],
    sent: data['sent'],
    escalationId: data['escalation_id'],
    text: JSON.stringify(data),
  }
}

/** One for each day, the oldest first. */
export async function logFiles(auditDir: string): Promise<string[]> {
  const logs = (await readdir(auditDir)).filter((name) => /^audit-.*\.ndjson$/.test(name)).sort()
  return logs.map((name) => join(auditDir, name))
}

async function newestLog(auditDir: string): Promise<string> {
  const newest = (await logFiles(auditDir)).at(-1)
  if (newest === undefined) throw new Error(`there is no log in ${auditDir}`)
  return newest
}

export async function linesOf(file: string): Promise<string[]> {
  return (await readFile(file, 'utf8')).trimEnd().split('\n')
}

/** Changes a letter of the tool name in the middle record to upper case, and returns its line number. */
async function changeOneByte(file: string): Promise<number> {
  const lines = await linesOf(file)
  const at = Math.floor(lines.length / 2)
  const changed = lines.map((line, i) =>
    i === at ? line.replace(/"tool":"(.)/, (_all, first: string) => `"tool":"${first.toUpperCase()}`) : line,
  )
  assert.notEqual(changed[at], lines[at], 'nothing was changed')
  await writeFile(file, `${changed.join('\n')}\n`)
  return at + 1
}
