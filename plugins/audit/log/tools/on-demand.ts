// The tools, each of which loads its modules with the first call: importing one does not load the others.

function onDemand<Args extends unknown[], Result>(load: () => Promise<(...args: Args) => Result>) {
  return async (...args: Args): Promise<Awaited<Result>> => await (await load())(...args)
}

export const verifyLog = onDemand(async () => (await import('./verify/verify-log.js')).verifyLog)
export const proveRecord = onDemand(async () => (await import('./prove/prove.js')).proveRecord)
export const proveRecords = onDemand(async () => (await import('./prove/prove.js')).proveRecords)
export const checkConsistency = onDemand(
  async () => (await import('./prove/consistency.js')).checkConsistency,
)
export const publishTiles = onDemand(async () => (await import('./prove/tiles.js')).publishTiles)
export const checkProof = onDemand(async () => (await import('./prove/check-proof.js')).checkProof)
export const checkProofs = onDemand(async () => (await import('./prove/check-proof.js')).checkProofs)
export const checkEvidence = onDemand(
  async () => (await import('./evidence/check-evidence.js')).checkEvidence,
)
export const evidenceOf = onDemand(async () => (await import('./evidence/collect.js')).evidenceOf)
export const estimateEvidence = onDemand(async () => (await import('./evidence/collect.js')).estimateEvidence)
export const vkeysOfLog = onDemand(async () => (await import('./prove/vkeys.js')).vkeysOfLog)
export const vkeyOf = onDemand(async () => (await import('./prove/vkeys.js')).vkeyOf)
export const readKeys = onDemand(async () => (await import('../keys/read-keys.js')).readKeys)
export const readWitnessKeys = onDemand(async () => (await import('./prove/vkeys.js')).readWitnessKeys)
export const startWitness = onDemand(async () => (await import('./witness/witness-server.js')).startWitness)
export const logStats = onDemand(async () => (await import('./read/log-stats.js')).logStats)
export const fetchLog = onDemand(async () => (await import('./fetch/fetch-log.js')).fetchLog)
export const traceTree = onDemand(async () => (await import('./read/trace-tree.js')).traceTree)

export async function* readLog(...given: Parameters<typeof import('./read/read-log.js').readLog>) {
  yield* (await import('./read/read-log.js')).readLog(...given)
}

export async function* followLog(...given: Parameters<typeof import('./read/follow-log.js').followLog>) {
  yield* (await import('./read/follow-log.js')).followLog(...given)
}

/** The objects that a control plane lists of the owner of its key. The caller closes the source. */
export const controlPlaneSource = async (
  ...given: ConstructorParameters<typeof import('./fetch/object-source.js').ControlPlaneSource>
) => new (await import('./fetch/object-source.js')).ControlPlaneSource(...given)
