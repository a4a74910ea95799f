// The loop of an agent over functions behind a policy. The "model" is a script that gets the same messages as a model.
import { createPipeline, governed, isGovernanceError } from 'svc-sdk'

const policyFile = process.argv[2] ?? 'policy.yaml'
const pipeline = createPipeline({ policyFile })

const tools = {
  divide: governed(pipeline, { server: 'calc', name: 'divide' }, ({ a, b }: { a: number; b: number }) => {
    if (b === 0) throw new RangeError('division by zero')
    return a / b
  }),
  erase: governed(pipeline, { server: 'calc', name: 'erase' }, () => 'erased'),
}

const script = [
  { tool: 'divide', args: { a: 6, b: 3 } },
  { tool: 'divide', args: { a: 1, b: 0 } },
  { tool: 'erase', args: { a: 0, b: 0 } },
] as const

for (const { tool, args } of script) {
  try {
    console.log(`${tool}: ${await tools[tool](args)}`)
  } catch (error) {
    if (isGovernanceError(error)) console.log(`${tool} was refused: ${error.message}`)
    else console.log(`${tool} failed: ${String(error)}`)
  }
}
await pipeline.close()
