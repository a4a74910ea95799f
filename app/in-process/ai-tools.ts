// Tools of the Vercel AI SDK behind the pipeline. Only the shape of a tool is used, so no version of the SDK is needed.
import { type CallContext, governed } from './governed.js'
import type { EmbeddedPipeline } from './pipeline.js'

/** The part of a tool that runs. */
interface Executable {
  readonly execute?: (input: never, options: never) => unknown
}

/** Options of `govern`. */
export interface GovernOptions {
  /** The server under which the tools are known to the policy. */
  readonly server: string
  readonly version?: string
  /** The context of a call, such as the identity of the user; called for each call. */
  readonly context?: (toolName: string) => CallContext
}

/**
 * The same tools with the pipeline in front of each `execute`; tools without one stay as they are. A refused call
 * rejects with `GovernanceError`, which the SDK gives to the model as a tool error with the reason. If a tool yields
 * preliminary results, only the last one is returned.
 */
export function govern<Tools extends Readonly<Record<string, Executable>>>(
  pipeline: EmbeddedPipeline,
  tools: Tools,
  { server, version, context = () => ({}) }: GovernOptions,
): Tools {
  const entries = Object.entries(tools).map(([name, tool]) => {
    if (tool.execute === undefined) return [name, tool]
    const execute = tool.execute as (input: object, options: object) => unknown
    const run = (input: object, options: { readonly abortSignal?: AbortSignal } = {}): Promise<unknown> => {
      const call = governed<object, unknown>(
        pipeline,
        { server, name, ...(version === undefined ? {} : { version }) },
        async (args, { signal }) => lastOf(await execute(args, { ...options, abortSignal: signal })),
        () => context(name),
      )
      return call(input, options.abortSignal === undefined ? {} : { signal: options.abortSignal })
    }
    return [name, { ...tool, execute: run }]
  })
  return Object.fromEntries(entries) as Tools
}

async function lastOf(result: unknown): Promise<unknown> {
  if (typeof result !== 'object' || result === null || !(Symbol.asyncIterator in result)) return result
  let last: unknown
  for await (const each of result as AsyncIterable<unknown>) last = each
  return last
}
