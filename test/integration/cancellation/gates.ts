// Stages that hold a call at a point of the pipeline until the test lets it pass.
import { type Call, definePlugin, type Plugin } from '@svc/core'
import { z } from 'zod'
import { signalled } from '../../support/signalled.js'

/** The points at which a call that is not sent can wait, outermost first. */
export const unsentPoints = [
  'before authn',
  'authentication',
  'authorization',
  'inspection',
  'evaluation',
  'decision',
  'idempotency',
  'metering',
  'credential',
] as const

/** All points, also those after the send: during the work of the upstream, and before the response is written. */
export const points = [...unsentPoints, 'upstream', 'responded'] as const
export type Point = (typeof points)[number]

interface Armed {
  readonly point: Point
  reached(call: Call): void
  readonly opened: Promise<void>
}

export interface HeldCall {
  /** Resolves when the call is at the point. */
  readonly reached: Promise<Call>
  open(): void
}

export class Gates {
  #armed: Armed | undefined
  #last: Call | undefined

  /** Holds the next call that comes to the point. */
  hold(point: Point): HeldCall {
    const opened = signalled()
    const reached = signalled<Call>()
    this.#armed = { point, reached: reached.resolve, opened: opened.happened }
    return { reached: reached.happened, open: opened.resolve }
  }

  /** For the upstream: its response is held as the call is at a stage. */
  atUpstream(): Promise<void> | undefined {
    return this.#last === undefined ? undefined : this.#pass('upstream', this.#last)
  }

  #pass(point: Point, call: Call): Promise<void> | undefined {
    const armed = this.#armed
    if (armed?.point !== point || !mayBeToolCall(call)) return undefined
    this.#armed = undefined
    armed.reached(call)
    return armed.opened
  }

  get plugins(): readonly Plugin[] {
    return unsentPoints.map((point) => this.#plugin(point))
  }

  #plugin(point: (typeof unsentPoints)[number]): Plugin {
    const isFirst = point === 'before authn'
    return definePlugin({
      name: `gate_${isFirst ? 'first' : point}`,
      version: '1.0.0',
      core: '^1.0.0',
      schema: z.strictObject({}).optional(),
      phase: isFirst ? 'redaction' : point,
      create: () => ({
        handle: async (call, next) => {
          await this.#pass(point, call)
          if (point === 'credential' && mayBeToolCall(call)) this.#last = call
          const outcome = await next()
          if (isFirst) await this.#pass('responded', call)
          return outcome
        },
      }),
    }) as Plugin
  }
}

/** An earlier cancellation may still be on its way, and the bridge opens streams in its own time. */
function mayBeToolCall({ target: { mcpMethod, tool } }: Call): boolean {
  return mcpMethod === 'tools/call' || (mcpMethod === null && tool !== 'GET')
}
