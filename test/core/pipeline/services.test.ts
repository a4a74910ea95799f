import { bindDefault, definePlugin, resolveOptional, type Stage, token } from '@svc/core'
import { buildPipeline } from '@svc/core/pipeline'
import { expect } from 'chai'
import { fakeContext } from 'svc-sdk/testing'
import { z } from 'zod'

const service = token<string>('test service')
const other = token<string>('another service')

const passing: Stage = { handle: (_call, next) => next() }

/** A plugin whose stage binds `value` when it is created. */
const binding = (name: string, value?: string) =>
  definePlugin({
    name,
    version: '1.0.0',
    core: '^1.0.0',
    schema: z.unknown(),
    create(_config, { container }) {
      if (value !== undefined) bindDefault(container, service, { useValue: value })
      return passing
    },
  })

function build(...plugins: ReturnType<typeof binding>[]) {
  const context = fakeContext('/')
  const policy = {
    host: {},
    uses: [],
    plugins,
    modules: new Map(),
    sections: new Map(),
    container: context.container,
    sha256: null,
    texts: [],
    warnings: [],
    notes: [],
    hostSecrets: [],
  }
  buildPipeline(policy, context, () => Promise.reject(new Error('nothing is sent')))
  return context.container
}

describe('services of stages', () => {
  it('come from the outermost stage that binds them', () => {
    const container = build(binding('passing'), binding('outer', 'outer'), binding('inner', 'inner'))
    expect(resolveOptional(container, service)).to.equal('outer')
  })

  it('are undefined if no stage binds them', () => {
    expect(resolveOptional(build(binding('outer', 'outer')), other)).to.equal(undefined)
  })
})
