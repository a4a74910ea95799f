import type { Stage } from '@svc/core'
import { protectionsPlugin } from '@svc/plugin-protections'
import { ProtectionsStage } from '@svc/plugin-protections/internal/plugin'
import { expect } from 'chai'
import { makeCall } from '../../support/call.js'
import { served } from '../../support/stage-rig.js'

function recording(name: string, log: string[], stop: () => Promise<void> = async () => undefined): Stage {
  return {
    start: async () => void log.push(`start ${name}`),
    handle(_call, next) {
      log.push(name)
      return next()
    },
    stop,
    health: () => ({ state: 'down', reason: `${name} waits` }),
  }
}

describe('the section protections', () => {
  it('refuses a key that no protection has', () => {
    const { error } = protectionsPlugin.schema.safeParse({ preset: 'guard', spells: {} })
    expect(error?.issues.map(({ code }) => code)).to.deep.equal(['unrecognized_keys'])
  })

  it('starts the protections from the innermost outward, and runs them from the outermost inward', async () => {
    const log: string[] = []
    const stage = new ProtectionsStage([recording('outer', log), recording('inner', log)])
    await stage.start(new AbortController().signal)
    expect(await stage.handle(makeCall({}), () => served)).to.equal(served)
    expect(log).to.deep.equal(['start inner', 'start outer', 'outer', 'inner'])
    expect(stage.health()).to.deep.equal({ state: 'down', reason: 'outer waits; inner waits' })
  })

  it('stops every protection if one does not stop', async () => {
    let stopped = 0
    const stage = new ProtectionsStage([
      recording('first', [], () => Promise.reject(new Error('stuck'))),
      recording('second', [], async () => {
        stopped += 1
      }),
    ])
    expect(await stage.stop().catch((error: unknown) => error)).to.be.instanceOf(AggregateError)
    expect(stopped).to.equal(1)
  })
})
