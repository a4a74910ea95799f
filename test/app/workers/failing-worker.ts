// A worker whose gateway can do nothing but start.
import { runWorker } from 'svc-sdk/internal/workers/worker'
import { minimalGateway } from './minimal-gateway.js'

runWorker(async () => minimalGateway())
