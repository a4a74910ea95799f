import { definePlugin, type PluginContext, type Stage, token } from '@svc/core'
import { buildPipeline, Pipeline } from '@svc/core/pipeline'
import { expect } from 'chai'
import { fakeContext } from 'svc-sdk/testing'
import { z } from 'zod'

const service = token<string>('test service')
const other = token<string>('another service')

const passing: Stage = { handle: (_call, next) => next() }
const offering = (value: string): Stage => ({
  ...passing,
  offer: <T>(asked: symbol & { readonly type?: T }) => (asked === service ? (value as T) : undefined),
})

const pipeline = (...stages: Stage[]) =>
  new Pipeline(
    stages.map((stage, i) => ({ name: `stage${i}`, stage })),
    () => Promise.reject(new Error('nothing is sent')),
  )

describe('services of stages', () => {
  it('come from the outermost stage that offers them', () => {
    expect(pipeline(passing, offering('outer'), offering('inner')).offer(service)).to.equal('outer')
  })

  it('are undefined where no stage offers them', () => {
    expect(pipeline(passing, offering('outer')).offer(other)).to.equal(undefined)
  })

  it('are available to the other stages of the pipeline after creation', () => {
    const contexts: PluginContext[] = []
    const make = (name: string, stage: Stage) =>
      definePlugin({
        name,
        version: '1.0.0',
        core: '^1.0.0',
        schema: z.unknown(),
        create: (_config, context) => {
          contexts.push(context)
          return stage
        },
      })
    const plugins = [make('asking', passing), make('offering', offering('value'))]
    const policy = {
      host: {},
      uses: [],
      plugins,
      modules: new Map(),
      sections: new Map(),
      facts: {},
      sha256: null,
      warnings: [],
      hostSecrets: [],
    }
    buildPipeline(policy, fakeContext('/'), () => Promise.reject(new Error('nothing is sent')))
    expect(contexts[0]?.service?.(service)).to.equal('value')
    expect(contexts[0]?.service?.(other)).to.equal(undefined)
  })
})
