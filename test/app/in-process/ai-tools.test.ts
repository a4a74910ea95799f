import { generateText, stepCountIs, type Tool, tool } from 'ai'
import { MockLanguageModelV3 } from 'ai/test'
import { expect } from 'chai'
import { govern } from 'svc-sdk'
import { z } from 'zod'
import { FunctionsRig } from './rig.js'

type Generated = Awaited<ReturnType<MockLanguageModelV3['doGenerate']>>

const usage: Generated['usage'] = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
}

/** A model that calls one tool and then ends. */
function scripted(toolName: string, input: object): MockLanguageModelV3 {
  const responses: Generated[] = [
    {
      content: [{ type: 'tool-call', toolCallId: 'c1', toolName, input: JSON.stringify(input) }],
      finishReason: { unified: 'tool-calls', raw: undefined },
      usage,
      warnings: [],
    },
    {
      content: [{ type: 'text', text: 'done' }],
      finishReason: { unified: 'stop', raw: undefined },
      usage,
      warnings: [],
    },
  ]
  let asked = 0
  return new MockLanguageModelV3({
    doGenerate: async () => responses[asked++] ?? (responses[1] as Generated),
  })
}

/** The results of tools that the model gets in its second round. */
function resultsShownTo(model: MockLanguageModelV3): string {
  const messages = model.doGenerateCalls[1]?.prompt.filter(({ role }) => role === 'tool')
  return JSON.stringify(messages)
}

const refund: Tool = tool({
  description: 'Refunds an order',
  inputSchema: z.object({ amount: z.number() }),
  execute: async ({ amount }: { amount: number }) => ({ refunded: amount }),
})
const stream: Tool = tool({
  inputSchema: z.object({}),
  async *execute() {
    yield 'working'
    yield 'ready'
  },
})

const entitlements = {
  default_plan: 'free',
  plans: { free: { allowlist: ['agent/refund', 'agent/stream'] } },
  tenants: {},
}

describe('governed tools of the AI SDK', () => {
  async function ask(name: string, input: object) {
    await using rig = new FunctionsRig({ entitlements })
    const model = scripted(name, input)
    const tools = govern(rig.pipeline, { refund, stream, wipe: refund }, { server: 'agent' })
    const { text } = await generateText({ model, tools, prompt: 'go', stopWhen: stepCountIs(3) })
    expect(text).to.equal('done')
    return { told: resultsShownTo(model), records: rig.records() }
  }

  it('give the model their results, with a record for each call', async () => {
    const { told, records } = await ask('refund', { amount: 10 })
    expect(told).to.contain('{"refunded":10}')
    expect(records[0]).to.include({ tool: 'refund@unversioned', status: 'ok' })
  })

  it('tell the model of a denial and its reason, as the error of the tool', async () => {
    const { told, records } = await ask('wipe', { amount: 10 })
    expect(told).to.contain('error-text').and.to.contain('TOOL_NOT_ALLOWED (tool_not_in_allowlist)')
    expect(records[0]).to.include({ error: 'TOOL_NOT_ALLOWED' })
  })

  it('give the last value that a tool yields', async () => {
    expect((await ask('stream', {})).told)
      .to.contain('"ready"')
      .and.not.to.contain('"working"')
  })

  it('are not changed if they have no execute function', () => {
    const rig = new FunctionsRig()
    const remote: Tool = tool({ inputSchema: z.object({}) })
    const tools = govern(rig.pipeline, { remote }, { server: 'agent' })
    expect(tools.remote).to.equal(remote)
    return rig[Symbol.asyncDispose]()
  })
})
