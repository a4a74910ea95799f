// The conformance suite over every plugin that ships.
import { expect } from 'chai'
import { builtinPlugins } from 'svc-sdk/internal/policy/plugins'
import { type ConformanceOptions, conformance } from 'svc-sdk/testing'

/** `options` of `test/plugins/<section>/conformance.ts`; a plugin without it runs on its defaults. */
async function optionsOf(section: string): Promise<ConformanceOptions> {
  try {
    const module: { options: ConformanceOptions } = await import(`../plugins/${section}/conformance.js`)
    return module.options
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND') return {}
    throw error
  }
}

const suites = await Promise.all(
  builtinPlugins.map(async (plugin) => ({ plugin, options: await optionsOf(plugin.name) })),
)

describe('the plugins that ship', () => {
  it('have names of their own', () => {
    const names = builtinPlugins.map(({ name }) => name)
    expect(new Set(names).size).to.equal(names.length)
  })

  for (const { plugin, options } of suites) {
    describe(plugin.name, () => {
      for (const { title, run } of conformance(plugin, options)) it(title, run)
    })
  }
})
