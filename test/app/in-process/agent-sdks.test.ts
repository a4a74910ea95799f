import { AIMessage, type ToolMessage } from '@langchain/core/messages'
import { tool as langchainTool } from '@langchain/core/tools'
import {
  Agent,
  type Model,
  type ModelRequest,
  type ModelResponse,
  tool as openaiTool,
  Runner,
  Usage,
} from '@openai/agents-core'
import { expect } from 'chai'
import { governed, isGovernanceError } from 'svc-sdk'
import { z } from 'zod'
import { FunctionsRig } from './rig.js'

const entitlements = {
  default_plan: 'free',
  plans: { free: { allowlist: ['calc/divide'] } },
  tenants: {},
}
const schema = z.object({ a: z.number(), b: z.number() })
const REASON = 'TOOL_NOT_ALLOWED (tool_not_in_allowlist)'

/** The function behind both tools, allowed under the name `divide` only. */
function divideAs(rig: FunctionsRig, name: string) {
  return governed(rig.pipeline, { server: 'calc', name }, async ({ a, b }: z.infer<typeof schema>) => a / b)
}

describe('governed tools of LangChain.js', () => {
  /** The result of the tool that the model gets. */
  async function ask(rig: FunctionsRig, name: string): Promise<ToolMessage> {
    const divide = divideAs(rig, name)
    const tool = langchainTool((args) => divide(args), { name, description: 'divides', schema })
    const { tool_calls: calls } = new AIMessage({
      content: '',
      tool_calls: [{ type: 'tool_call', id: 'c1', name, args: { a: 6, b: 2 } }],
    })
    const [call] = calls ?? []
    if (call === undefined) throw new Error('the model called no tool')
    return tool.invoke({ ...call, type: 'tool_call' })
  }

  it('give the model their results, with a record for each call', async () => {
    await using rig = new FunctionsRig({ entitlements })
    expect((await ask(rig, 'divide')).content).to.equal('3')
    expect(rig.records()[0]).to.include({ tool: 'divide@unversioned', status: 'ok' })
  })

  it('fail with the reason of a denial', async () => {
    await using rig = new FunctionsRig({ entitlements })
    const failure = await ask(rig, 'wipe').then(String, (error: Error) => error.message)
    expect(failure).to.contain(REASON)
    expect(rig.records()[0]).to.include({ error: 'TOOL_NOT_ALLOWED' })
  })
})

/** Calls one tool, then ends with the text of its result. */
class ScriptedModel implements Model {
  readonly #name: string
  told = ''

  constructor(name: string) {
    this.#name = name
  }

  async getResponse({ input }: ModelRequest): Promise<ModelResponse> {
    const result =
      typeof input === 'string' ? undefined : input.find(({ type }) => type === 'function_call_result')
    const usage = new Usage()
    if (result === undefined) {
      const call = { type: 'function_call', callId: 'c1', name: this.#name, status: 'completed' } as const
      return { usage, output: [{ ...call, arguments: JSON.stringify({ a: 6, b: 2 }) }] }
    }
    this.told = JSON.stringify(result)
    const content = [{ type: 'output_text', text: 'done' } as const]
    return { usage, output: [{ type: 'message', role: 'assistant', status: 'completed', content }] }
  }

  getStreamedResponse(): never {
    throw new Error('this model does not stream')
  }
}

describe('governed tools of the OpenAI Agents SDK', () => {
  async function ask(rig: FunctionsRig, name: string): Promise<string> {
    const divide = divideAs(rig, name)
    const tool = openaiTool({
      name,
      description: 'divides',
      parameters: schema,
      execute: (args) => divide(args),
      errorFunction: (_, error) => (isGovernanceError(error) ? error.message : 'the tool failed'),
    })
    const model = new ScriptedModel(name)
    const runner = new Runner({ tracingDisabled: true, modelProvider: { getModel: () => model } })
    const { finalOutput } = await runner.run(new Agent({ name: 'calculator', tools: [tool] }), 'divide')
    expect(finalOutput).to.equal('done')
    return model.told
  }

  it('give the model their results, with a record for each call', async () => {
    await using rig = new FunctionsRig({ entitlements })
    expect(await ask(rig, 'divide')).to.contain('"3"')
    expect(rig.records()[0]).to.include({ tool: 'divide@unversioned', status: 'ok' })
  })

  it('tell the model of a denial and its reason', async () => {
    await using rig = new FunctionsRig({ entitlements })
    expect(await ask(rig, 'wipe')).to.contain(REASON)
    expect(rig.records()[0]).to.include({ error: 'TOOL_NOT_ALLOWED' })
  })
})
