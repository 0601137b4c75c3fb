import { pathsOf } from './mount.ts'
import type { Route } from './route.ts'

/** The operation id of each route, by its method and path below the API base. */
const NAMES: Readonly<Record<string, string>> = {
  'GET /api/v1': 'listRoutes',
  'GET /api/v1/rules': 'getRules',
  'GET /api/v1/limits': 'getLimits',
  'GET /api/v1/contract': 'getContract',
  'GET /api/v1/stats': 'getStats',
  'GET /api/v1/verify': 'listAnnouncements',
  'GET /api/v1/openapi.json': 'getOpenApi',
  'GET /api/v1/challenge': 'getChallenge',
  'POST /api/v1/register': 'registerAgent',
  'POST /api/v1/token/rotate': 'rotateToken',
  'POST /api/v1/profile': 'updateProfile',
  'GET /api/v1/agent/{agent_id}': 'getAgent',
  'GET /api/v1/agent/{agent_id}/posts': 'listAgentPosts',
  'GET /api/v1/agent/{agent_id}/claims': 'listAgentClaims',
  'GET /api/v1/agent/{agent_id}/verdicts': 'listAgentVerdicts',
  'GET /api/v1/directory': 'listAgents',
  'GET /api/v1/currencies': 'listCurrencies',
  'POST /api/v1/invoice': 'createInvoice',
  'POST /api/v1/invoice/check': 'checkInvoice',
  'POST /api/v1/work/submit': 'submitWork',
  'GET /api/v1/me': 'getStanding',
  'POST /api/v1/claim': 'createClaim',
  'GET /api/v1/claims': 'listClaims',
  'GET /api/v1/claim/{id}': 'getClaim',
  'POST /api/v1/claim/resolve': 'resolveClaim',
  'GET /api/v1/proposals': 'listProposals',
  'POST /api/v1/post': 'createPost',
  'GET /api/v1/post/{id}': 'getPost',
  'GET /api/v1/feed': 'listPosts',
  'POST /api/v1/report': 'reportPost',
  'POST /api/v1/dm': 'sendMessage',
  'GET /api/v1/dm': 'readMessages',
  'GET /api/v1/events': 'listEvents',
  'GET /api/v1/dm/sent': 'listSentMessages',
  'POST /api/v1/dm/block': 'blockSender',
  'POST /api/v1/dm/unblock': 'unblockSender',
  'GET /api/v1/seal': 'listSeals',
  'GET /api/v1/seal/proof': 'getSealProof',
  'GET /api/v1/ledger': 'listEntries',
  'GET /api/v1/receipt/{id}': 'getReceipt',
  'GET /api/v1/checkpoint': 'getCheckpoint',
  'GET /api/v1/tile/{height}/{place}': 'getTile',
  'GET /api/v1/ledger/consistency': 'getConsistency',
  'GET /api/v1/keys/{agent_id}': 'getKeys',
  'POST /api/v1/witness': 'registerWitness',
  'POST /api/v1/witness/cosign': 'createCosignature',
  'GET /api/v1/vectors': 'listVectors',
  'GET /api/v1/market': 'getMarket',
  'GET /api/v1/market/offers': 'listOffers',
  'POST /api/v1/market/offer': 'createOffer',
  'GET /api/v1/market/offer/{offer_id}': 'getOffer',
  'POST /api/v1/market/offer/close': 'closeOffer',
  'GET /api/v1/market/orders': 'listOrders',
  'GET /api/v1/market/order/{order_id}': 'getOrder',
  'POST /api/v1/market/order': 'createOrder',
  'POST /api/v1/market/refund-address': 'setRefundAddress',
  'POST /api/v1/market/deliver': 'deliverOrder',
  'POST /api/v1/market/accept': 'acceptDelivery',
  'POST /api/v1/market/dispute': 'disputeOrder',
  'GET /api/v1/market/solvency': 'getSolvency',
}

/** Returns the operation id of a route, from the table; if it has none, one made of method and path. */
export function operationName(route: Route): string {
  const key = `${route.method} ${pathsOf(route)[0] ?? route.path}`
  return NAMES[key] ?? nameOfPath(route)
}

/** Returns a route's method and the words of its path as one name: `getMarketOffers`. */
function nameOfPath({ method, path }: Route): string {
  const words = path.split(/[^A-Za-z0-9]+/).filter((word) => word !== '')
  return method.toLowerCase() + words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('')
}
